"""A unit from a file is one in the language of the target that it is judged on."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpsmith.api import read_candidate
from warpsmith.targets.cpu import CpuTarget
from warpsmith.targets.cuda import CudaTarget
from warpsmith.testing import chain_task


@pytest.mark.parametrize(("target", "language"), [(CpuTarget, "c++"), (CudaTarget, "cuda")])
def test_language_of_a_unit_from_a_file(tmp_path: Path, target: type, language: str) -> None:
    (tmp_path / "unit.cu").write_text('// warpsmith-unit: 1\n#include "task.h"\n')
    made = target.__new__(target)  # nothing is built: no compiler is looked for
    found = read_candidate(chain_task(), tmp_path / "unit.cu", made)
    assert found.units[0].language == language
    assert found.target == made.name

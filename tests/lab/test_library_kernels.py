"""What a profile of torch's own ways comes to: sums by kernel, and a page."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
import torch

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


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_one_line_says_so(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(
        "sys.argv", ["library_kernels.py", "--out", str(tmp_path / "rows.jsonl"), "vit_block_bf16"]
    )
    with pytest.raises(SystemExit, match="this times kernels on an NVIDIA GPU"):
        module.main()
    assert not any(tmp_path.iterdir())

"""Solutions on a GPU: torch's own operations, a kernel of its own, work on another stream, a fault."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from warpsmith.solutions.verdict import SolutionVerdict

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]
Judged = Callable[..., SolutionVerdict]
TARGET = "cuda"
TASK = """
import torch
ROWS = 512
COLS = 1024
VARIANTS = {"ragged": {"ROWS": 67, "COLS": 331}}
class Model(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.linear = torch.nn.Linear(cols, 256)
    def forward(self, x):
        return torch.relu(self.linear(x)) * 2.0
def get_inputs():
    return [torch.rand(ROWS, COLS)]
def get_init_inputs():
    return [COLS]
"""
PLAIN = """
import torch
class ModelNew(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.linear = torch.nn.Linear(cols, 256)
    def forward(self, x):
        BODY
"""
HONEST = "torch.relu(self.linear(x)) * 2.0"
SIDE = f"""
        y = torch.empty(len(x), 256, device=x.device)
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            torch.cuda._sleep(2_000_000)
            y.copy_({HONEST})
        return y
"""
KERNEL = '''
import torch
from torch.utils.cpp_extension import load_inline
CUDA = """
__global__ void twice_relu(const float* a, float* o, int64_t n) {
  int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < n) o[i] = a[i] > 0 ? 2 * a[i] : 0;
}
torch::Tensor run(torch::Tensor y) {
  auto o = torch::empty_like(y);
  twice_relu<<<(y.numel() + 255) / 256, 256>>>(y.data_ptr<float>(), o.data_ptr<float>(), y.numel());
  return o;
}
"""
ext = load_inline(name="twice_relu_cuda", cpp_sources="torch::Tensor run(torch::Tensor y);", cuda_sources=CUDA,
                  functions=["run"])
class ModelNew(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.linear = torch.nn.Linear(cols, 256)
    def forward(self, x):
        return ext.run(self.linear(x))
'''


def test_torchs_own_operations(judged: Judged) -> None:
    found = judged(PLAIN.replace("BODY", f"return {HONEST}"), timed=True)
    assert (found.verdict, found.label) == ("correct", "none"), (found.reasons, found.isolation)
    assert 0.5 < found.speedup["best"].median < 2, found.speedup


def test_a_kernel_of_its_own(judged: Judged) -> None:
    found = judged(KERNEL, timed=True)
    trace = found.trace and found.trace.solution.kernels
    assert (found.verdict, found.label) == ("correct", "kernel"), (found.reasons, trace, found.isolation)
    assert "twice_relu" in found.reasons[-1]


def test_work_on_another_stream_is_charged(judged: Judged) -> None:
    """The sleep alone takes about a millisecond."""
    found = judged(PLAIN.replace("BODY", SIDE), timed=True)
    assert found.verdict != "correct" or found.timing.median_us > 500, (found.reasons, found.timing)


def test_a_fault_ends_only_itself(judged: Judged) -> None:
    fault = "i = torch.full((8,), 1 << 40, device=x.device); return x[i].sum() + x.new_zeros(512, 256)"
    found = judged(PLAIN.replace("BODY", fault), timed=True)
    assert found.verdict == "incorrect", found.reasons
    assert found.rule in ("raised", "crashed"), found.reasons
    test_torchs_own_operations(judged)

"""One record of the machine that kernels are written for: sizes, rates and the cost of calls, one unit in each field's name.

In: a target and a device's name, as the driver tells it. Out: that device's `Hardware`; an H200's for a GPU that has no profile.
The figures decide what is tried first, never what is right. What a search measures of its own machine is in `facts`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

LEAST_SHARE = 0.4  # of a unit's time alone, in a candidate


@dataclass(frozen=True)
class Hardware:
    """Rates are what long library kernels sustain, not a data sheet's peaks. A CPU has no figures of multiprocessors."""

    name: str
    dram_bytes_per_s: float
    fp32_flops_per_s: float  # without tensor cores; a multiply-add counts as two
    aten_call_us: (
        float  # a small ATen operation in a deployed candidate; on a GPU the host is what is waited for
    )
    unit_call_us: float = 4.0  # what a unit takes in a deployed candidate beyond its time alone: allocation, ctypes, waking threads
    kernel_launch_us: float = 0.0  # one more kernel of a unit
    tensor_tf32_flops_per_s: float = 0.0
    tensor_fp16_flops_per_s: float = 0.0
    sm_count: int = 0
    sm_clock_mhz: float = 0.0  # sustained: cycles a microsecond
    l2_bytes: int = 0
    registers_per_sm: int = 64 << 10  # of 32 bits
    smem_bytes_per_block: int = 48 << 10  # the most that a kernel may ask for
    smem_bytes_static: int = 48 << 10  # what a block has without asking
    smem_bytes_reserved: int = 1 << 10  # what the driver takes of each block's

    def in_candidate_us(self, alone_us: float) -> float:
        """Microseconds that a unit takes in a candidate. On a GPU they are fewer than alone: there is no event before and after each kernel, its
        launch overlaps with the kernel before, and what that one wrote is in the cache. At least a share of its time alone stays.
        """
        return max(alone_us + self.unit_call_us, LEAST_SHARE * alone_us)

    @property
    def sm_count_rounded(self) -> int:
        """The power of two that is nearest, for grids that grow by powers of two."""
        below = 1 << (self.sm_count.bit_length() - 1)
        return below if self.sm_count - below < 2 * below - self.sm_count else 2 * below

    @property
    def streamed_bytes(self) -> int:
        """The size of outputs above which stores had better pass the L2 cache by."""
        return self.l2_bytes * 16 // 25

    def dram_us(self, moved: float, share: float = 1.0) -> float:
        """The time that moving so many bytes takes a kernel that reaches this share of the sustained rate."""
        return moved / (share * self.dram_bytes_per_s) * 1e6


CPU = Hardware("cpu", dram_bytes_per_s=1e10, fp32_flops_per_s=1e11, aten_call_us=3.0)
H200 = Hardware(
    "h200", dram_bytes_per_s=4e12, fp32_flops_per_s=5e13, aten_call_us=5.0, unit_call_us=-4.0, kernel_launch_us=3.0,
    tensor_tf32_flops_per_s=4e14, tensor_fp16_flops_per_s=7e14, sm_count=132, sm_clock_mhz=1755.0, l2_bytes=50 << 20,
    smem_bytes_per_block=227 << 10,
)  # fmt: skip
H100 = replace(H200, name="h100", dram_bytes_per_s=2.8e12)  # SXM
A100 = replace(
    H200, name="a100", dram_bytes_per_s=1.7e12, fp32_flops_per_s=1.9e13, tensor_tf32_flops_per_s=1.3e14, tensor_fp16_flops_per_s=2.5e14,
    sm_count=108, sm_clock_mhz=1410.0, l2_bytes=40 << 20, smem_bytes_per_block=163 << 10,
)  # fmt: skip

# Names as nvidia-smi tells them; other variants of a chip have other counts of multiprocessors.
PROFILES: Mapping[str, Hardware] = MappingProxyType({
    "NVIDIA H200": H200, "NVIDIA H100 80GB HBM3": H100, "NVIDIA A100-SXM4-80GB": A100, "NVIDIA A100 80GB PCIe": A100,
})  # fmt: skip
# Of a block at the most, by compute capability (CUDA C++ programming guide, "Technical Specifications per Compute Capability").
SMEM_KIB_PER_BLOCK: Mapping[str, int] = MappingProxyType({
    "80": 163, "86": 99, "87": 163, "89": 99, "90": 227, "100": 227, "103": 227, "110": 227, "120": 99,
})  # fmt: skip


def hardware_of(target: str, device: str = "") -> Hardware:
    """`device`: its name; "" where it is not known."""
    return PROFILES.get(device, H200) if target == "cuda" else CPU

"""The schedule of direct convolutions on CUDA cores (`direct_convolution`). Rates are those of an H200; they decide what is tried
first, never what is right."""

from __future__ import annotations

from dataclasses import dataclass

from ....hardware import Hardware
from ...schedule import Schedule, tunes
from ..convolution_kinds import ConvolutionKind

SUMS = 64  # accumulators that a thread keeps
DRAM_SHARE, FP32_SHARE = 0.875, 0.8


@dataclass(frozen=True)
class DirectConvolutionSchedule(Schedule):
    strip: int = tunes("ROWS_PER_THREAD", 1)  # output rows of a thread
    channels: int = tunes("CHANNELS", 1)  # output channels of a thread
    vec: int = tunes("VEC", 4)  # pixels of a row, a thread
    block: int = tunes("BLOCK", 128)

    def sums(self, kind: ConvolutionKind) -> int:
        """Accumulators of a thread; of a transposed convolution, for each of its phases."""
        rows, columns = phases_of(kind)
        return self.strip * rows * self.channels * self.vec * columns


def phases_of(kind: ConvolutionKind) -> tuple[int, int]:
    """Return the phases of rows and of columns of a transposed convolution."""
    phases = kind.stride[-2:] if kind.transposed else ()
    rows, columns = (*(1,) * (2 - len(phases)), *phases)
    return rows, columns


def memory_us(hardware: Hardware, moved: int) -> float:
    return hardware.dram_us(moved, DRAM_SHARE)


def arithmetic_us(hardware: Hardware, operations: float) -> float:
    return operations / (FP32_SHARE * hardware.fp32_flops_per_s) * 1e6

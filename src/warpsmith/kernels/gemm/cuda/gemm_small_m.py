"""A float32 product of few rows and a large right factor that lies along the sum, on Hopper's tensor cores: `product_wgmma`, but the
large factor is read once, as it is, and nothing of it goes through the workspace.

In: a product that `gemm_operands` has declared. Out: its kernels: `split` for the left factor alone, then `product`. There two
warpgroups read a slice of the right factor, a slice ahead, split it into fp16 at its place in shared memory, and two multiply, each slice
by itself: with all of a slice's products of one under way, the other one adds.
"""

from __future__ import annotations

from ....codegen.cuda.cuda_source import Launch
from ....codegen.templates import render
from .gemm_3xfp16 import Roles, emit_3xfp16_kernels

# Whoever stores to a stage or loads from it arrives by itself, not a lane for its warp after `__syncwarp`: racecheck follows
# each thread's own arrivals only, and an H200 takes no longer for it.
_GIVE = "    ws::barrier_arrive(empty + behind);"
_SOME = "  float some[64] = {};  // sums of one slice"


def emit_small_m_kernels(left: str, right: str) -> tuple[list[Launch], str]:
    """`left`, `right`: the factors' operands."""
    feed = render("gemm/cuda/gemm_small_m_producer.cuh", right=right).rstrip("\n")
    multiply = render("gemm/cuda/gemm_small_m_mainloop.cuh").rstrip("\n")
    roles = Roles(
        512, "two that bring tiles", 257, 256, 152, feed, _SOME, multiply, _GIVE
    )  # 104 + 152 registers: all there are
    return emit_3xfp16_kernels(left, right, roles=roles)

"""The schedules of the half-precision GEMM by TMA and wgmma (`gemm_tma_wgmma`): cooperative and ping-pong, and the tiles that should
take the least time.

Persistent blocks, one a multiprocessor. Rates are guesses for a Hopper GPU until measured ones take their place; they decide what is tried
first, never what is right.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....hardware import Hardware
from ....records import Tunable
from ...family import Technique
from ...schedule import Schedule, tunes
from ..matmul_pattern import Sizes

TILE_K, CONSUMERS = 64, 2
EPILOGUE_BYTES = 4 * 16 * 40 * 4  # of a warpgroup: four warps stage 16 rows of 32 sums, 40 floats apart
CONTROL_BYTES = 1024 + 256  # to begin at a multiple of 1024, and barriers
DRAM_SHARE = 0.9
LEAST_ROWS, LEAST_DEPTH = 32, 64
# Tile (M, N) and the share of the tensor cores' rate that it reaches; small tiles read each factor more often.
COOPERATIVE = {(128, 256): 0.82, (256, 128): 0.82, (128, 192): 0.78, (128, 128): 0.72, (128, 64): 0.5}
PING_PONG = {(128, 128): 0.78, (64, 256): 0.72, (64, 192): 0.68, (64, 128): 0.6, (64, 64): 0.4}


@dataclass(frozen=True)
class GemmTmaWgmmaSchedule(Schedule):
    tile_m: int = tunes("BM", 128)
    tile_n: int = tunes("BN", 256)
    stages: int = tunes("RING_STAGES", 4)
    group: int = tunes("GROUP", 8)  # tiles down that blocks take before they go over
    grid: int = tunes("GRID", 132)  # persistent blocks; right with any number
    ping_pong: bool = False

    @property
    def smem_bytes(self) -> int:
        ring = self.stages * (self.tile_m + self.tile_n) * TILE_K * 2
        return CONTROL_BYTES + ring + CONSUMERS * EPILOGUE_BYTES

    def us(self, hardware: Hardware, sizes: Sizes, share: float) -> float:
        """The time of the products. In ping-pong a block has two tiles under way."""
        tiles = -(-sizes.rows // self.tile_m) * -(-sizes.columns // self.tile_n)
        slots = self.grid * (CONSUMERS if self.ping_pong else 1)
        waves = -(-tiles // slots)
        flops = 2.0 * self.tile_m * self.tile_n * TILE_K * (-(-sizes.depth // TILE_K) + 2)
        return waves * flops * slots / (share * hardware.tensor_fp16_flops_per_s) * 1e6


def build_tma_wgmma_techniques(
    hardware: Hardware, sizes: Sizes, moved: int, stream: Tunable
) -> list[Technique]:
    """`moved`: bytes of all operands. Empty for products that are small or thin."""
    if min(sizes.rows, sizes.columns) < LEAST_ROWS or sizes.depth < LEAST_DEPTH:
        return []
    techniques = []
    for name, tiles, why in (
        ("gemm-tma-wgmma", COOPERATIVE, "tiles by TMA into a ring of stages, two warpgroups of a persistent block share each"),
        ("gemm-tma-wgmma-ping-pong", PING_PONG, "tiles by TMA, a warpgroup each in turns: one stores while the other multiplies"),
    ):  # fmt: skip
        ranked = sorted(
            (fit_schedule(hardware, m, n, tiles is PING_PONG) for m, n in tiles),
            key=lambda s: s.us(hardware, sizes, tiles[s.tile_m, s.tile_n]),
        )
        best = ranked[0]
        through = best.us(hardware, sizes, tiles[best.tile_m, best.tile_n])
        us = max(through, hardware.dram_us(moved, DRAM_SHARE)) + hardware.kernel_launch_us
        widths = [s.tile_n for s in ranked[1:] if s.tile_m == best.tile_m and s.stages >= best.stages][:2]
        tunables = best.tunables(tile_n=widths, stages=(best.stages - 1,), group=(4, 16))
        techniques.append(Technique(name, why, "compute", (*tunables, stream), us=us))
    return techniques


def fit_schedule(hardware: Hardware, tile_m: int, tile_n: int, ping_pong: bool) -> GemmTmaWgmmaSchedule:
    """Choose as many stages as shared memory holds, eight at most."""
    grid = hardware.sm_count
    schedules = (GemmTmaWgmmaSchedule(tile_m, tile_n, s, 8, grid, ping_pong) for s in range(8, 1, -1))
    return next(
        (s for s in schedules if s.smem_bytes <= hardware.smem_bytes_per_block),
        GemmTmaWgmmaSchedule(tile_m, tile_n, 2, 8, grid, ping_pong),
    )

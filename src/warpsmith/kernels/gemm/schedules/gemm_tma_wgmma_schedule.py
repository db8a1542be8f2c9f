"""The schedules of the half-precision GEMM by TMA and wgmma (`gemm_tma_wgmma`): cooperative and ping-pong, and the tiles and cluster
shapes that should take the least time.

Persistent blocks, one a multiprocessor. Two things bound them: the tensor cores over whole waves of tiles, and what the L2 cache gives, of which each
block of a cluster loads its share alone. The rates are those of an H100 (`results/h100/hgemm_kernels.md`); they decide what is tried
first, never what is right.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

from ....hardware import Hardware
from ....records import Tunable
from ...family import Technique
from ...schedule import Schedule, tunes
from ..matmul_pattern import Sizes

TILE_K, CONSUMERS = 64, 2
SHAPE_M, SHAPE_N = "CLUSTER_SHAPE_M", "CLUSTER_SHAPE_N"
EPILOGUE_BYTES = 4 * 16 * 40 * 4  # of a warpgroup: four warps stage 16 rows of 32 sums, 40 floats apart
CONTROL_BYTES = 1024 + 256  # to begin at a multiple of 1024, and barriers
DRAM_SHARE, L2_BYTES_PER_S = 0.9, 7.1e12
LEAST_ROWS, LEAST_DEPTH = 32, 64
# Tile (M, N) and the share of the tensor cores' nominal rate that it reaches where the L2 cache gives enough.
COOPERATIVE = {
    (128, 256): 1.1,
    (256, 128): 1.1,
    (256, 192): 1.1,
    (128, 192): 1.1,
    (128, 128): 1.05,
    (128, 64): 0.7,
}
PING_PONG = {(128, 128): 1.1, (64, 256): 1.05, (64, 192): 1.0, (64, 128): 0.9, (64, 64): 0.6}
CLUSTER_SHAPES = ((1, 1), (2, 1), (1, 2))


@dataclass(frozen=True)
class GemmTmaWgmmaSchedule(Schedule):
    tile_m: int = tunes("BM", 128)
    tile_n: int = tunes("BN", 256)
    stages: int = tunes("RING_STAGES", 4)
    group: int = tunes("GROUP", 8)  # tiles down that blocks take before they go over
    grid: int = tunes("GRID", 132)  # persistent blocks; right with any number
    cluster_m: int = tunes(SHAPE_M, 1)  # blocks that share the right factor's tile
    cluster_n: int = tunes(SHAPE_N, 1)  # … the left factor's
    ping_pong: bool = False

    @property
    def smem_bytes(self) -> int:
        ring = self.stages * (self.tile_m + self.tile_n) * TILE_K * 2
        return CONTROL_BYTES + ring + CONSUMERS * EPILOGUE_BYTES

    def us(self, hardware: Hardware, sizes: Sizes, share: float) -> float:
        """The time of the products. In ping-pong a block has two tiles under way."""
        down = -(-sizes.rows // (self.tile_m * self.cluster_m)) * self.cluster_m
        tiles = down * -(-sizes.columns // (self.tile_n * self.cluster_n)) * self.cluster_n
        slots = self.grid * (CONSUMERS if self.ping_pong else 1)
        waves, slices = -(-tiles // slots), -(-sizes.depth // TILE_K)
        flops = 2.0 * self.tile_m * self.tile_n * TILE_K * (slices + 2)
        loaded = (self.tile_m / self.cluster_n + self.tile_n / self.cluster_m) * TILE_K * 2 * slices
        through = waves * flops * slots / (share * hardware.tensor_fp16_flops_per_s)
        return max(through, tiles * loaded / L2_BYTES_PER_S) * 1e6


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
            _list_schedules(hardware, tiles, tiles is PING_PONG),
            key=lambda s: s.us(hardware, sizes, tiles[s.tile_m, s.tile_n]),
        )
        best = ranked[0]
        through = best.us(hardware, sizes, tiles[best.tile_m, best.tile_n])
        us = max(through, hardware.dram_us(moved, DRAM_SHARE)) + hardware.kernel_launch_us
        others = (s.tile_n for s in ranked if s.tile_m == best.tile_m and s.stages >= best.stages)
        widths = [n for n in dict.fromkeys(others) if n != best.tile_n][:2]
        tunables = best.tunables(
            tile_n=widths, stages=(best.stages - 1,), group=(4, 16), cluster_m=(1, 2), cluster_n=(1, 2)
        )
        techniques.append(Technique(name, why, "compute", (*tunables, stream), us=us))
    return techniques


def _list_schedules(
    hardware: Hardware, tiles: Iterable[tuple[int, int]], ping_pong: bool
) -> list[GemmTmaWgmmaSchedule]:
    return [fit_schedule(hardware, *tile, ping_pong, shape) for tile, shape in product(tiles, CLUSTER_SHAPES)]


def fit_schedule(
    hardware: Hardware, tile_m: int, tile_n: int, ping_pong: bool, cluster_shape: tuple[int, int] = (1, 1)
) -> GemmTmaWgmmaSchedule:
    """Choose as many stages as shared memory holds, eight at most."""
    schedules = [
        GemmTmaWgmmaSchedule(tile_m, tile_n, stages, 8, hardware.sm_count, *cluster_shape, ping_pong)
        for stages in range(8, 1, -1)
    ]
    return next((s for s in schedules if s.smem_bytes <= hardware.smem_bytes_per_block), schedules[-1])

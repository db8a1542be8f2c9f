"""How long a configuration of the Hopper GEMM kernels should take: what decides which ones are worth timing at a shape.

    python benchmarks/hgemm_model.py results/h100/hgemm_kernels.jsonl.gz     # how far it is off what was timed

A kernel takes its start, and then the longest of three: its tensor cores over whole waves of tiles, what it reads from the L2 cache, of which
each block of a cluster loads its share alone, and what it moves to and from DRAM; stores that nothing hides come on top. The constants were
fitted to the graph replays of an H100, without clusters that multicast (`results/h100/hgemm_kernels.md`); they hold for no other GPU.
"""

from __future__ import annotations

import gzip
import json
import math
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any, NamedTuple

from hgemm_configurations import CLUSTER, SEMAPHORE, Configuration, Launch, MmaSync, TmaWgmma

MULTIPROCESSORS = 132
MACS_A_CYCLE = 2048  # of a multiprocessor's tensor cores
CLOCK_HZ = 1.46e9  # under load; more where nothing else bounds
L2_BYTES_PER_S, DRAM_BYTES_PER_S = 6.5e12, 3.3e12
IN_L2_BYTES = 40e6  # operands that stay there between two calls
WGMMA_START_US, MMA_START_US, DEPENDENT_SAVES_US = 1.6, 0.95, 0.3
ROUND_TRIP_US = 0.9  # of a slice of K through the ring
LAST_STORE_US, STORE_US, PING_PONG_HIDES = 1.8, 5.9, 0.7  # of a tile of 128 x 256
MMA_SHARE, MMA_STORE_US = 0.28, 1.0  # of the tensor cores' rate that mma.sync reaches
SEMAPHORE_US, SEMAPHORE_TRIPS, DSMEM_US = 4.3, 5.1, 2.6
RESIDENT_SHARE = 0.35  # of the multiprocessors that clusters of four and eight along K find
TILE = 128 * 256
NEAR_OCTAVES = 3.0  # how far another shape counts in a correction
PRIOR_WEIGHT = 1.0  # how much the model counts beside the other shapes
Shape = tuple[int, int, int]
Row = dict[str, Any]
Times = tuple[float, float]  # microseconds: estimated, timed


class Work(NamedTuple):
    """`tiles` of `slices` of K, in `waves`, `sharing` blocks on a multiprocessor."""

    tiles: int
    slices: int
    waves: int
    sharing: int

    @classmethod
    def split(
        cls, tiles: int, parts: int, depth: int, slice_depth: int, slots: int, blocks_per_sm: int
    ) -> Work:
        work = tiles * parts
        sharing = min(blocks_per_sm, math.ceil(work / MULTIPROCESSORS))
        return cls(
            work,
            math.ceil(math.ceil(depth / slice_depth) / parts),
            math.ceil(work / max(slots, 1)),
            sharing,
        )


def estimate_us(configuration: Configuration, launch: Launch, shape: Shape) -> float:
    """Microseconds of an (m, n, k) product by graph replay."""
    m, n, k = shape
    if isinstance(configuration, TmaWgmma):
        body, start = _estimate_wgmma(configuration, launch, (n, m, k) if configuration.swap else shape)
    else:
        body, start = _estimate_mma(configuration, launch, shape)
    moved = 2 * (m * n + m * k + n * k)
    dram_us = moved / DRAM_BYTES_PER_S * 1e6 if moved > IN_L2_BYTES else 0.0
    return start - DEPENDENT_SAVES_US * launch.dependent + max(body, dram_us)


def _estimate_wgmma(c: TmaWgmma, launch: Launch, shape: Shape) -> tuple[float, float]:
    m, n, k = shape
    tiles = math.ceil(m / (c.bm * c.cm)) * math.ceil(n / (c.bn * c.cn)) * c.cm * c.cn
    group = launch.parts if c.split == CLUSTER else c.cm * c.cn
    share = RESIDENT_SHARE if c.split == CLUSTER and group > 2 else 1.0
    slots = int(MULTIPROCESSORS / group * share) * group * c.blocks_per_sm
    work = Work.split(tiles, launch.parts, k, c.bk, slots, c.blocks_per_sm)
    # 16 of K: multiply-adds, or both operands out of shared memory at 128 bytes a cycle.
    cycles = c.bm / 64 * max(c.bn / 2, 16 + c.bn / 4) * c.bk / 16
    loaded = (c.bm / c.cn + c.bn / c.cm) * c.bk * 2
    through = _estimate_slices(work, cycles, c.bk, c.stages, loaded)
    hidden = 1 - PING_PONG_HIDES * c.pingpong
    stores = (LAST_STORE_US + (work.waves - 1) * STORE_US * hidden) * c.bm * c.bn / TILE
    if launch.parts > 1 and c.split == SEMAPHORE:
        stores += SEMAPHORE_US + SEMAPHORE_TRIPS * work.tiles * c.bm * c.bn * 4 / L2_BYTES_PER_S * 1e6
    elif launch.parts > 1:
        stores += DSMEM_US
    return through + stores, WGMMA_START_US


def _estimate_mma(c: MmaSync, launch: Launch, shape: Shape) -> tuple[float, float]:
    m, n, k = shape
    warps, ring = c.wm * c.wn * c.wk, c.stages * (c.bm + c.bn) * c.bk * 2
    per_sm = max(1, min(8, (227 << 10) // (ring + 1024), 64 // warps))
    tiles = math.ceil(m / c.bm) * math.ceil(n / c.bn)
    work = Work.split(tiles, launch.parts, k, c.bk, MULTIPROCESSORS * per_sm, per_sm)
    cycles = c.bm * c.bn * c.bk / MACS_A_CYCLE / MMA_SHARE
    through = _estimate_slices(work, cycles, c.bk, c.stages, (c.bm + c.bn) * c.bk * 2)
    added = 0.6 * SEMAPHORE_US if launch.parts > 1 else 0.0
    return through + work.waves * MMA_STORE_US + added, MMA_START_US


def _estimate_slices(work: Work, cycles: float, depth: int, stages: int, loaded: float) -> float:
    """Microseconds of all slices: by the tensor cores or the ring's round trips, and by the L2 cache. `loaded`: bytes of one."""
    step_us = max(cycles * work.sharing / CLOCK_HZ * 1e6, ROUND_TRIP_US * math.sqrt(depth / 64) / stages)
    from_l2_us = work.tiles * work.slices * loaded / L2_BYTES_PER_S * 1e6
    return max(work.waves * work.slices * step_us, from_l2_us)


def select_promising(variants: Sequence[Any], shape: Shape, b_transposed: int, count: int) -> list[int]:
    """Return the numbers of so many variants of this layout, the least estimate first."""
    fitting = [i for i, v in enumerate(variants) if v.configuration.bt == b_transposed]
    return sorted(fitting, key=lambda i: estimate_us(variants[i].configuration, variants[i].launch, shape))[
        :count
    ]


def measure_miss(variants: dict[str, Any], rows: Iterable[Row], kept: int) -> dict[tuple[Any, ...], float]:
    """Return for each shape and layout how much longer the best of the `kept` first by estimate took than the best of all."""
    return {place: _miss(times.values(), kept) for place, times in collect_times(variants, rows).items()}


def measure_corrected_miss(
    variants: dict[str, Any], rows: Iterable[Row], kept: int
) -> dict[tuple[Any, ...], float]:
    """Return the same for estimates that are corrected by what each variant took at the other shapes, the near ones before all."""
    times = collect_times(variants, rows)
    return {
        place: _miss([correct(name, place, times) for name in at_place], kept)
        for place, at_place in times.items()
    }


def collect_times(variants: dict[str, Any], rows: Iterable[Row]) -> dict[tuple[Any, ...], dict[str, Times]]:
    """Return (estimate, timed) of each variant by shape and layout."""
    times: dict[tuple[Any, ...], dict[str, Times]] = {}
    for row in rows:
        variant = variants.get(row.get("name", ""))
        if variant is not None and "replay_us" in row:
            shape = row["m"], row["n"], row["k"]
            estimate = estimate_us(variant.configuration, variant.launch, shape)
            times.setdefault((*shape, row["b_transposed"]), {})[variant.name] = estimate, row["replay_us"]
    return times


def correct(name: str, place: tuple[Any, ...], times: dict[tuple[Any, ...], dict[str, Times]]) -> Times:
    """Return (corrected estimate, timed). What was timed at this shape, in either layout, has no part in the correction."""
    estimate, timed_us = times[place][name]
    total, weights = 0.0, PRIOR_WEIGHT
    for other, at_other in times.items():
        if other[:3] != place[:3] and name in at_other:
            octaves = sum(math.log2(a / b) ** 2 for a, b in zip(other[:3], place[:3], strict=True))
            weight = math.exp(-octaves / (2 * NEAR_OCTAVES**2))
            total += weight * math.log(at_other[name][1] / at_other[name][0])
            weights += weight
    return estimate * math.exp(total / weights), timed_us


def _miss(pairs: Iterable[Times], kept: int) -> float:
    pairs = list(pairs)
    first = sorted(pairs, key=lambda pair: pair[0])[:kept]
    return min(us for _, us in first) / min(us for _, us in pairs)


def main() -> int:
    from hgemm_kernels import list_variants

    with gzip.open(Path(sys.argv[1]), "rt") as file:
        rows = [json.loads(line) for line in file]
    alone = [
        v
        for v in list_variants([], "*")
        if getattr(v.configuration, "cm", 1) * getattr(v.configuration, "cn", 1) == 1
    ]
    for measure, label in ((measure_miss, ""), (measure_corrected_miss, ", corrected by the other shapes")):
        for kept in (1, 8, 24):
            miss = measure({v.name: v for v in alone}, rows, kept)
            worst = max(miss, key=lambda place: miss[place])
            print(
                f"best of {kept}{label}: {geometric_mean(miss.values()):.3f} times the best time over {len(miss)} shapes and layouts, {miss[worst]:.3f} at {worst}"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())

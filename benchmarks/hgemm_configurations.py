"""Configurations of the Hopper GEMM kernels that are built and measured: one cubin each, and how each is launched.

A cubin is made by nvcc from a file of `benchmarks/hgemm` with `-DG_…` definitions. A launch chooses what needs no cubin of
its own: raster, parts of K, dependent launch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from itertools import product

MAX_SHARED_BYTES = 227 << 10
NO_SPLIT, SEMAPHORE, CLUSTER = range(3)


@dataclass(frozen=True)
class Launch:
    """`group` tiles down, then one over; `along_n`: over, then down. `parts` of K."""

    group: int = 8
    along_n: int = 0
    parts: int = 1
    dependent: int = 0

    @property
    def suffix(self) -> str:
        split = f"_k{self.parts}" if self.parts > 1 else ""
        return f"g{self.group}{'n' if self.along_n else 'm'}{split}{'_pdl' if self.dependent else ''}"


@dataclass(frozen=True)
class TmaWgmma:
    """The fields are the definitions of `tma_wgmma_unit.cu`, in lower case."""

    bm: int = 128
    bn: int = 256
    stages: int = 4
    cm: int = 1
    cn: int = 1
    pingpong: int = 0
    consumers: int = 2
    producer_warps: int = 4
    blocks_per_sm: int = 1
    swap: int = 0
    bt: int = 1
    panel: int = 64
    split: int = NO_SPLIT
    tma_store: int = 1
    boxes: int = 0
    bk: int = 64
    left_l2: int = 0
    right_l2: int = 0
    in_bf16: int = 0
    out_fp32: int = 0
    epilogue: int = 0

    unit = "tma_wgmma_unit.cu"
    architecture = "sm_90a"

    @property
    def name(self) -> str:
        """The parts that differ from the default are named."""
        letters = "pp" if self.pingpong else "co" if self.consumers == 2 else "one"
        text = f"w{letters}_{self.bm}x{self.bn}x{self.bk}_s{self.stages}_{'nk' if self.bt else 'kn'}"
        text += f"_c{self.cm}{self.cn}" if self.cm * self.cn > 1 else ""
        text += "_swap" if self.swap else ""
        text += ("", "_sem", "_dsm")[self.split]
        text += f"_p{self.panel}" if self.panel != 64 else ""
        text += "_p1w" if self.consumers == 2 and self.producer_warps == 1 else ""
        text += f"_b{self.blocks_per_sm}" if self.blocks_per_sm > 1 else ""
        text += f"_x{self.boxes}" if self.boxes else ""
        text += f"_l{self.left_l2}{self.right_l2}" if self.left_l2 or self.right_l2 else ""
        text += "_direct" if not self.tma_store and self.split != CLUSTER else ""
        return text + ("_bf16" if self.in_bf16 else "") + ("_fp32" if self.out_fp32 else "")

    @property
    def shared_bytes(self) -> int:
        """The ring and the smallest staging; the layout itself asserts the exact sum."""
        columns = self.bn if self.bt or self.swap else -(-self.bn // self.panel) * self.panel
        width = next(w for w in (64, 32, 16) if self.bn % w == 0)
        box = self.bn * 128 if self.swap else 64 * width * 2
        staging = self.consumers * box if self.tma_store else 0
        ring = self.stages * (self.bm + columns) * self.bk * 2
        sums = self.bm * (self.bn + 8) * 4 if self.split == CLUSTER else 0
        return max(ring, sums) + staging + 1024 + 16 * self.stages + 16

    @property
    def fits(self) -> bool:
        return self.shared_bytes <= MAX_SHARED_BYTES // self.blocks_per_sm - 1024 * (self.blocks_per_sm > 1)


@dataclass(frozen=True)
class MmaSync:
    """The fields are the definitions of `mma_sync_unit.cu`, in lower case."""

    bm: int = 64
    bn: int = 64
    bk: int = 64
    stages: int = 4
    wm: int = 2
    wn: int = 2
    wk: int = 1
    va: int = 8
    vb: int = 8
    bt: int = 1
    split: int = 1
    blocks_per_sm: int = 1
    in_bf16: int = 0
    out_fp32: int = 0
    epilogue: int = 0

    unit = "mma_sync_unit.cu"
    architecture = "sm_90"

    @property
    def name(self) -> str:
        text = f"m_{self.bm}x{self.bn}x{self.bk}_s{self.stages}_w{self.wm}{self.wn}{self.wk}_{'nk' if self.bt else 'kn'}"
        text += f"_v{self.va}{self.vb}" if (self.va, self.vb) != (8, 8) else ""
        return text + ("_bf16" if self.in_bf16 else "") + ("_fp32" if self.out_fp32 else "")


Configuration = TmaWgmma | MmaSync


def list_definitions(configuration: Configuration) -> list[str]:
    return [f"-DG_{f.name.upper()}={getattr(configuration, f.name)}" for f in fields(configuration)]


Choice = tuple[Configuration, tuple[Launch, ...]]
RASTERS = tuple(Launch(group, along_n) for along_n in (0, 1) for group in (4, 8, 16))
ONE_RASTER = (Launch(8),)


def list_large() -> Iterator[Choice]:
    """Large products: tiles of many sums, multicast, wave-filling widths."""
    for bt in (1, 0):
        base = TmaWgmma(bt=bt)
        clusters = [(1, 1), (2, 1), (1, 2)]
        for cm, cn in clusters:
            yield replace(base, cm=cm, cn=cn), RASTERS
            yield replace(base, cm=cm, cn=cn, stages=3), ONE_RASTER
            yield replace(base, bm=256, bn=128, cm=cm, cn=cn), RASTERS
            yield replace(base, bm=64, pingpong=1, cm=cm, cn=cn), ONE_RASTER
            yield replace(base, bm=128, bn=128, stages=6, pingpong=1, cm=cm, cn=cn), RASTERS
        for bn, (cm, cn) in product((160, 176, 192, 208, 224), clusters[:2]):
            panel = 64 if bt else next(w for w in (64, 32, 16) if bn % w == 0)
            yield replace(base, bn=bn, cm=cm, cn=cn, panel=panel), ONE_RASTER
            if bn <= 192:
                narrower = replace(base, bn=bn, cm=cm, cn=cn, panel=panel)
                yield replace(narrower, pingpong=1), ONE_RASTER
                # 192 sums a thread leave no registers for results in several slots.
                yield replace(narrower, bm=256, stages=3, boxes=int(bn == 192)), ONE_RASTER
        yield replace(base, cm=2, left_l2=1, right_l2=2), ONE_RASTER
        yield replace(base, cm=2, boxes=1), ONE_RASTER
        yield replace(base, cm=2, cn=2), ONE_RASTER


def list_skinny() -> Iterator[Choice]:
    """Few rows or columns, memory-bound products, small tiles: deep rings, several blocks a multiprocessor, swapped factors."""
    for bt in (1, 0):
        one = TmaWgmma(bm=64, consumers=1, producer_warps=1, bt=bt)
        for bn in (32, 64, 96, 128, 192, 256):
            panel = 64 if bt or bn % 64 == 0 else 32
            yield replace(one, bn=bn, stages=6 if bn < 192 else 4, panel=panel), ONE_RASTER
        for bn, blocks, stages in ((64, 3, 4), (128, 2, 4), (64, 4, 2)):
            yield replace(one, bn=bn, blocks_per_sm=blocks, stages=stages), ONE_RASTER
        for bm, bn in product((64, 128), (16, 32, 64, 128)):
            consumers = bm // 64
            swapped = replace(
                one, bm=bm, bn=bn, consumers=consumers, producer_warps=4 if consumers == 2 else 1, swap=1
            )
            yield replace(swapped, stages=8 if bn < 128 else 5), ONE_RASTER
        yield TmaWgmma(bn=128, stages=6, bt=bt), RASTERS
        yield TmaWgmma(bn=64, stages=8, bt=bt), ONE_RASTER
        yield TmaWgmma(bn=128, stages=3, bt=bt, blocks_per_sm=1, bk=128), ONE_RASTER


def list_split() -> Iterator[Choice]:
    """Few tiles and deep K: parts added through DSMEM or by the last block."""
    parts = tuple(Launch(8, 0, p) for p in (2, 4, 8))
    for bt in (1, 0):
        for bm, bn, stages in ((128, 256, 4), (128, 128, 6), (128, 64, 8)):
            yield TmaWgmma(bm=bm, bn=bn, stages=stages, bt=bt, split=SEMAPHORE), (*parts, Launch(8, 0, 16))
            yield TmaWgmma(bm=bm, bn=bn, stages=stages, bt=bt, split=CLUSTER, tma_store=0), parts
        one = TmaWgmma(bm=64, consumers=1, producer_warps=1, bt=bt, stages=8)
        for bn in (32, 64, 128):
            panel = 64 if bt or bn % 64 == 0 else 32
            narrow = replace(one, bn=bn, panel=panel)
            yield replace(narrow, split=SEMAPHORE), (*parts, Launch(8, 0, 16), Launch(8, 0, 32))
            yield replace(narrow, split=CLUSTER, tma_store=0), (*parts, Launch(8, 0, 16))
        for bn in (32, 64):
            swapped = replace(one, bm=64, bn=bn, swap=1, split=CLUSTER, tma_store=0)
            yield swapped, parts


def list_clusters() -> Iterator[Choice]:
    """Small tiles that share their operands by multicast: without it the L2 cache, which gives some 7 TB/s, bounds them."""
    parts = tuple(Launch(8, 0, p) for p in (2, 4, 8))
    for bt in (1, 0):
        one = TmaWgmma(bm=64, consumers=1, producer_warps=1, bt=bt, stages=6)
        for bn, (cm, cn) in product((64, 128), ((2, 1), (4, 1), (1, 2), (2, 2))):
            yield replace(one, bn=bn, cm=cm, cn=cn), ONE_RASTER
        yield replace(one, bn=256, stages=4, cm=2), ONE_RASTER
        for cm, cn in ((2, 1), (1, 2), (2, 2), (4, 1)):
            yield TmaWgmma(bn=128, stages=6, bt=bt, cm=cm, cn=cn), (Launch(4), Launch(8), Launch(8, 1))
        for cm, cn in ((2, 1), (2, 2)):
            yield TmaWgmma(bn=192, bt=bt, cm=cm, cn=cn, panel=64), ONE_RASTER
            yield TmaWgmma(bm=256, bn=128, bt=bt, cm=cm, cn=cn), ONE_RASTER
        for cm, cn in ((2, 1), (1, 2), (2, 2)):
            yield TmaWgmma(bn=128, stages=6, bt=bt, cm=cm, cn=cn, split=SEMAPHORE), parts
            if (cm, cn) != (1, 2):  # there registers spill
                yield TmaWgmma(bt=bt, cm=cm, cn=cn, split=SEMAPHORE), parts
        for bn, (cm, cn) in product((64, 128), ((2, 1), (1, 2))):
            yield replace(one, bn=bn, cm=cm, cn=cn, split=SEMAPHORE), parts


def list_small() -> Iterator[Choice]:
    """Products that one wave of small blocks finishes."""
    launches = (Launch(8), Launch(8, dependent=1), *(Launch(8, 0, p) for p in (2, 4, 8)))
    tiles = (
        (16, 16, 64, 6, 1, 1, 4), (16, 32, 64, 6, 1, 2, 2), (32, 32, 64, 4, 2, 2, 1), (32, 32, 64, 6, 1, 2, 4),
        (32, 64, 64, 4, 2, 2, 2), (64, 32, 64, 4, 2, 2, 1), (64, 64, 64, 4, 2, 2, 1), (64, 64, 64, 4, 2, 2, 2),
        (64, 64, 32, 4, 2, 2, 1), (64, 128, 32, 4, 2, 2, 1), (128, 64, 32, 4, 2, 2, 1), (128, 128, 32, 4, 2, 4, 1),
        (64, 64, 128, 3, 2, 2, 2), (64, 96, 64, 4, 2, 3, 1),
    )  # fmt: skip
    for bt, (bm, bn, bk, stages, wm, wn, wk) in product((1, 0), tiles):
        yield MmaSync(bm=bm, bn=bn, bk=bk, stages=stages, wm=wm, wn=wn, wk=wk, bt=bt), launches


def list_other_types() -> Iterator[Choice]:
    """bf16, float32 results, narrow copies, stores from registers: checked, and timed where a shape has the type."""
    for bt in (1, 0):
        for config in (TmaWgmma(bt=bt, cm=2), TmaWgmma(bt=bt, bn=128, stages=6, pingpong=1), MmaSync(bt=bt)):
            yield replace(config, in_bf16=1), ONE_RASTER
        yield TmaWgmma(bt=bt, bn=128, out_fp32=1, tma_store=0), ONE_RASTER
        yield TmaWgmma(bt=bt, bn=128, tma_store=0), ONE_RASTER
        yield TmaWgmma(bt=bt, bn=64, swap=1, tma_store=0), ONE_RASTER
        yield MmaSync(bt=bt, va=1, vb=1), ONE_RASTER
        yield MmaSync(bt=bt, va=2, vb=2, out_fp32=1), ONE_RASTER


GROUPS = {
    "large": list_large, "skinny": list_skinny, "split": list_split, "clusters": list_clusters, "small": list_small,
    "types": list_other_types,
}  # fmt: skip


def list_choices(groups: list[str]) -> dict[Configuration, tuple[Launch, ...]]:
    """Configurations that fit, each once, in the order of the groups."""
    choices: dict[Configuration, tuple[Launch, ...]] = {}
    for group in groups:
        for configuration, launches in GROUPS[group]():
            if isinstance(configuration, MmaSync) or configuration.fits:
                choices.setdefault(configuration, launches)
    return choices

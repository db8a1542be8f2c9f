"""Tiles in registers: with 16 of them as with 32 the innermost loops of products keep no sum in memory, and read what they
have loaded no second time. The instructions are looked at; nothing is run, so that both are tested on any x86 machine.
"""

from __future__ import annotations

import platform
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from warpsmith.facts import Facts
from warpsmith.kernels.registry import family_of
from warpsmith.records import Graph, Unit
from warpsmith.targets.cpu import CpuTarget
from warpsmith.targets.native_target import HEADERS

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="architectures of x86")
MACHINES = {
    "znver3": Facts(threads=2, vector=8, registers=16, l2_bytes=512 << 10),
    "x86-64-v4": Facts(threads=2, vector=16, registers=32),
}
Case = tuple[Callable[..., object], tuple[tuple[int, ...], ...]]
CASES: dict[str, Case] = {
    "product": (F.linear, ((96, 128), (192, 128))),
    "few rows": (F.linear, ((8, 512), (64, 512))),
    "few columns": (torch.matmul, ((128, 512), (512, 2))),
    "dense": (lambda x, w: F.conv2d(x, w, padding=1), ((2, 8, 40, 40), (32, 8, 3, 3))),
    "depthwise": (lambda x, w: F.conv2d(x, w, padding=2, groups=32), ((2, 32, 40, 40), (32, 1, 5, 5))),
    "attention": (F.scaled_dot_product_attention, ((2, 4, 64, 32),) * 3),
}


@dataclass(frozen=True)
class Loop:
    """An innermost loop's vector instructions."""

    lines: tuple[str, ...]

    @property
    def multiply_adds(self) -> int:
        return sum(bool(re.search(r"\tvfmadd\d+ps\t", line)) for line in self.lines)

    @property
    def spilt(self) -> list[str]:
        return [line for line in self.lines if re.search(r"\(%r[sb]p[,)]", line)]

    @property
    def reads(self) -> int:
        return sum(bool(re.search(r"\t-?\w*\(%r.*,", line)) for line in self.lines)


def written(bench: Any, name: str, arch: str, technique: str = "") -> tuple[Unit, Graph]:
    function, shapes = CASES[name]
    graph = bench.graph(function, *(torch.empty(s) for s in shapes))
    region = bench.whole(graph)
    family = family_of(graph, region)
    assert family is not None
    offered = family.techniques(graph, region, MACHINES[arch])
    chosen = next(t for t in offered if technique in ("", t.name))
    return family.write(graph, region, chosen), graph


def loops(target: CpuTarget, unit: Unit, graph: Graph, arch: str, folder: Path) -> list[Loop]:
    """The innermost loops that multiply and add vectors, as GCC makes them for an architecture."""
    (folder / "task.h").write_text(target.header(graph, unit.region))
    (folder / "unit.cpp").write_text(unit.source)
    flags = [f"-march={arch}" if f == "-march=native" else f for f in target.flags(unit)]
    subprocess.run(
        [target.compiler, *flags, "-S", "unit.cpp", "-I.", "-I", str(HEADERS)], cwd=folder, check=True
    )
    lines = (folder / "unit.s").read_text().splitlines()
    at = {line[:-1]: i for i, line in enumerate(lines) if re.fullmatch(r"\.L\d+:", line)}
    jumps = [
        (at[j[1]], i)
        for i, line in enumerate(lines)
        if (j := re.match(r"\tj\w+\t(\.L\d+)$", line)) and j[1] in at
    ]
    backward = [(a, b) for a, b in jumps if a < b]
    inner = [
        (a, b) for a, b in backward if not any(a <= c and d <= b and (c, d) != (a, b) for c, d in backward)
    ]
    found = [Loop(tuple(line for line in lines[a:b] if re.search(r"%[xyz]mm", line))) for a, b in inner]
    return [loop for loop in found if loop.multiply_adds >= 4]


@pytest.mark.parametrize("arch", MACHINES)
@pytest.mark.parametrize("name", CASES)
def test_no_sum_goes_through_memory(bench: Any, tmp_path: Path, name: str, arch: str) -> None:
    unit, graph = written(bench, name, arch)
    found = loops(bench.target, unit, graph, arch, tmp_path)
    assert found
    assert [loop.spilt for loop in found] == [[]] * len(found), unit.values


@pytest.mark.parametrize(
    ("name", "arch", "rows", "vectors"),
    [("product", "znver3", 6, 2), ("product", "x86-64-v4", 6, 4), ("few rows", "znver3", 4, 2), ("few rows", "x86-64-v4", 4, 4)],
)  # fmt: skip
def test_a_tile_reads_its_factors_once(
    bench: Any, tmp_path: Path, name: str, arch: str, rows: int, vectors: int
) -> None:
    """GCC took the right factor's vectors from memory for each row: 12 reads for 8 multiply-adds."""
    unit, graph = written(bench, name, arch, "panels")
    main = max(loops(bench.target, unit, graph, arch, tmp_path), key=lambda loop: loop.multiply_adds)
    assert (main.multiply_adds, main.reads) == (rows * vectors, rows + vectors)


@pytest.mark.parametrize("arch", MACHINES)
@pytest.mark.parametrize("name", CASES)
def test_no_vector_is_wider_than_a_register(bench: Any, name: str, arch: str) -> None:
    unit, _ = written(bench, name, arch)
    domain = next(t.domain for t in unit.tunables if t.name == "VEC")
    assert max(domain) == unit.values["VEC"] == MACHINES[arch].vector


def test_a_block_of_the_right_factor_takes_half_the_second_level_cache(bench: Any) -> None:
    def resident(facts: Facts) -> int | None:
        graph = bench.graph(F.linear, torch.empty(512, 512), torch.empty(512, 512))
        family = family_of(graph, bench.whole(graph))
        assert family is not None
        (technique, *_) = family.techniques(graph, bench.whole(graph), facts)
        return next((t.value for t in technique.tunables if t.name == "RESIDENT"), None)

    facts = MACHINES["znver3"]
    assert resident(facts) == 256
    assert resident(replace(facts, l2_bytes=1 << 20)) == 512
    assert resident(replace(facts, l2_bytes=2 << 20)) is None  # all of it fits

"""CUDA units of the expert as shared libraries of the CPU, so that they can be compared with torch where there is no GPU."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from built_once import built_once
from unit_bench import Bench

from warpsmith import targets
from warpsmith.facts import Facts
from warpsmith.kernels.family import Technique
from warpsmith.kernels.gemm.cuda.cuda_matmul import CudaMatMul
from warpsmith.kernels.registry import family_of
from warpsmith.records import Diagnostic, Graph, Region, Unit
from warpsmith.search.tuner import at_other_values
from warpsmith.targets import cubin
from warpsmith.targets.build_cache import BuildCache
from warpsmith.targets.cuda import SOURCE, CudaTarget
from warpsmith.targets.native_target import LIBRARY
from warpsmith.targets.task_header import cuda_region_header

HOST = Path(__file__).parent / "cuda_host"
HEADERS = Path(targets.__file__).parent
FLAGS = (
    "-std=c++17", "-O1", "-fPIC", "-w", "-ffp-contract=off", "-U_FORTIFY_SOURCE", f"-I{HOST}", f"-I{HEADERS}",
)  # fmt: skip
# As nvcc does of itself: a sum of a product is one fused multiply-add wherever there may be one.
CONTRACTING_FLAGS = ("-march=native", "-fexpensive-optimizations", "-ffp-contract=fast")
# What every unit begins with, compiled once: reading it takes longer than most units.
FIRST = '#include "cuda_on_host.h"\n#include <map>\n'
FACTS = Facts(threads=2, bandwidth=4e12, flop_rate=5e13, target="cuda")
Made = Callable[[], tuple[torch.Tensor, ...]]


def share_values(units: Sequence[Unit]) -> Iterator[tuple[int, Unit]]:
    """Set each tunable to every other value, each value on one unit: yields the unit's number and the unit at that value.
    Of the units that have a value, the one with the fewest so far gets it.
    """
    choices: dict[tuple[str, int], list[tuple[int, Unit]]] = {}
    for number, unit in enumerate(units):
        for other in at_other_values(unit):
            (value,) = other.values.items() - unit.values.items()
            choices.setdefault(value, []).append((number, other))
    counts = [0] * len(units)
    for choice in choices.values():
        number, other = min(choice, key=lambda entry: counts[entry[0]])
        counts[number] += 1
        yield number, other


class DeviceTarget(CudaTarget):
    """A unit's part for the device alone, with all that is checked of it, in less than half the time."""

    def _key_parts(self) -> list[str]:
        return [*super()._key_parts(), "cubin"]

    def _commands(self, flags: Sequence[str]) -> list[list[str]]:
        compiler = [self.toolkit.nvcc, "-ccbin", self.compiler, *flags, "-I.", f"-I{HEADERS}"]
        return [[*compiler, "-cubin", SOURCE, "-o", LIBRARY]]

    def _check(self, library: Path) -> tuple[Diagnostic, ...]:
        found = cubin._find_refusals(library.read_bytes())
        return tuple(Diagnostic(line=0, kind="symbol", message=text) for text in found)


def cut_product(graph: Graph) -> Region:
    """The region that the planner cuts around the first matrix product of a graph."""
    family = CudaMatMul()
    node = next(n for n in graph.nodes if family.covers(graph, n))
    region = family.cut(graph, node, (), True)
    assert region is not None
    return region


@dataclass(frozen=True)
class CudaBench(Bench):
    """As `Bench`, with g++ behind `tests/kernels/cuda_host`. `folder`: where libraries lie. `contracting`: products and sums
    are fused where nvcc may fuse them; else nowhere.
    """

    folder: Path = Path()
    contracting: bool = False

    def techniques(self, graph: Graph, region: Region) -> Iterator[tuple[Technique, Unit]]:
        family = family_of(graph, region, "cuda")
        assert family is not None
        for technique in family.techniques(graph, region, FACTS):
            yield technique, family.write(graph, region, technique)

    def case(self, function: Callable[..., object], made: Made) -> tuple[Graph, tuple[torch.Tensor, ...]]:
        """A graph and what it is called with: the same at each call."""
        torch.manual_seed(0)
        args = made()
        return self.graph(function, *args), args

    def library(self, unit: Unit, graph: Graph) -> ctypes.CDLL:
        header = cuda_region_header(graph, unit.region).replace("cuda_bf16", "cuda_on_host")
        defines = [f"-D{n}={v}" for n, v in unit.values.items()]

        def make(folder: Path) -> list[str]:
            (folder / "task.h").write_text(f'#include "cuda_on_host.h"\n{header}')
            (folder / "unit.cpp").write_text(unit.source)
            return [
                "-shared",
                f"-Wl,--version-script={HOST / 'exports.map'}",
                *defines,
                "-include",
                str(self._first() / "first.h"),
                "-o",
                "unit.so",
                "unit.cpp",
            ]

        return ctypes.CDLL(str(self._built([unit.source, header, *defines], make) / "unit.so"))

    def _first(self) -> Path:
        def make(folder: Path) -> list[str]:
            (folder / "first.h").write_text(FIRST)
            return ["-x", "c++-header", "-o", "first.h.gch", "first.h"]

        return self._built([FIRST], make)

    def _built(self, parts: Sequence[str], make: Callable[[Path], list[str]]) -> Path:
        """The folder that `make` wrote into and a compiler with its arguments ran in; once for equal `parts`."""

        def command(aside: Path) -> list[str]:
            return [self.target.compiler, *self._flags, *make(aside)]

        return built_once(self.folder / BuildCache.key([*self._fixed, *parts]), command)

    @property
    def _flags(self) -> tuple[str, ...]:
        return (*FLAGS, *CONTRACTING_FLAGS) if self.contracting else FLAGS

    @functools.cached_property
    def _fixed(self) -> list[str]:
        texts = [
            f.read_text()
            for where in (HOST, HEADERS)
            for f in sorted([*where.glob("*.h"), *where.glob("*.map")])
        ]
        return [self.target.signature, *self._flags, *texts]

    def run(self, unit: Unit, graph: Graph, values: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        return self.call(self.library(unit, graph), unit, graph, values)

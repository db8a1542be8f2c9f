"""CUDA units of the expert as shared libraries of the CPU, so that they can be compared with torch where there is no GPU."""

from __future__ import annotations

import ctypes
import hashlib
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from unit_bench import Bench

from warpsmith import machine, targets
from warpsmith.agents.expert.facts import Facts
from warpsmith.agents.expert.families import Technique
from warpsmith.agents.expert.registry import family_of
from warpsmith.records import Graph, Region, Unit
from warpsmith.search.tuner import with_values
from warpsmith.targets.task_header import cuda_region_header

HOST = Path(__file__).parent / "cuda_host"
HEADERS = Path(targets.__file__).parent
LAUNCH = re.compile(r"(\w+)<<<(.*), (\w+), (\w+), on>>>\((.*)\);")
FACTS = Facts(threads=2, bandwidth=4e12, flop_rate=5e13, target="cuda")
Made = Callable[[], tuple[torch.Tensor, ...]]


def at_other_values(unit: Unit) -> Iterator[Unit]:
    """At every further value of each tunable, one at a time."""
    for tunable in unit.tunables:
        for value in tunable.domain[1:]:
            yield with_values(unit, {tunable.name: value})


@dataclass(frozen=True)
class CudaBench(Bench):
    """As `Bench`, with g++ behind `tests/agents/expert/cuda_host`. `folder`: where libraries lie."""

    folder: Path = Path()

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
        source = LAUNCH.sub(r"host::launch(\2, \3, \4, [&] { \1(\5); });", unit.source)
        header = cuda_region_header(graph, unit.region).replace("cuda_bf16", "cuda_on_host")
        key = hashlib.sha256(repr((source, header, unit.values)).encode()).hexdigest()[:16]
        folder = self.folder / key
        if not (folder / "unit.so").exists():
            folder.mkdir()
            (folder / "task.h").write_text(f'#include "cuda_on_host.h"\n{header}')
            (folder / "unit.cpp").write_text(source)
            defines = [f"-D{n}={v}" for n, v in unit.values.items()]
            flags = ["-std=c++17", "-O1", "-fPIC", "-shared", "-w", "-ffp-contract=off", "-U_FORTIFY_SOURCE"]
            paths = [f"-I{folder}", f"-I{HOST}", f"-I{HEADERS}", "-o", str(folder / "unit.so")]
            made = subprocess.run(
                [machine.find_compiler(None), *flags, *defines, *paths, str(folder / "unit.cpp")],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert made.returncode == 0, made.stderr[:3000]
        return ctypes.CDLL(str(folder / "unit.so"))

    def run(self, unit: Unit, graph: Graph, values: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        return self.call(self.library(unit, graph), unit, graph, values)

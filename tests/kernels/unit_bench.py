"""Builds the expert's units with the real compiler and runs them here, against torch in float64."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from warpsmith.facts import Facts
from warpsmith.kernels.family import Technique
from warpsmith.kernels.registry import family_of
from warpsmith.records import Graph, Region, Unit
from warpsmith.runtime.interpreter import run_graph
from warpsmith.targets.cpu import CpuTarget
from warpsmith.tasks.export import export_program, program_graph
from warpsmith.tasks.regions import make_region

FACTS = Facts(threads=2, vector=8, l2_bytes=1 << 20, l3_bytes=16 << 20, bandwidth=2e10)


class Wrapped(torch.nn.Module):
    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> object:
        return self.function(*args)


@dataclass(frozen=True)
class Bench:
    """One target for the whole session: equal sources are compiled once."""

    target: CpuTarget
    facts: Facts = FACTS

    def graph(self, function: Callable[..., object], *args: torch.Tensor) -> Graph:
        module = function if isinstance(function, torch.nn.Module) else Wrapped(function)
        return program_graph(export_program(module.eval(), args, {}, "test.py"), "test.py")

    def whole(self, graph: Graph) -> Region:
        return make_region(graph, [n.name for n in graph.nodes])

    def techniques(self, graph: Graph, region: Region) -> Iterator[tuple[Technique, Unit]]:
        family = family_of(graph, region)
        assert family is not None
        for technique in family.techniques(graph, region, self.facts):
            yield technique, family.write(graph, region, technique)

    def run(self, unit: Unit, graph: Graph, values: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        build = self.target.build(unit, graph, "main")
        assert build.ok, [f"{d.line}: {d.message}" for d in build.diagnostics]
        # GCC unrolls what is instantiated for wider shapes and never called, and warns of that.
        told = [d for d in build.diagnostics if "aggressive-loop-optimizations" not in d.message]
        assert not told, told
        return self.call(ctypes.CDLL(build.library), unit, graph, values)

    def call(
        self, library: ctypes.CDLL, unit: Unit, graph: Graph, values: dict[str, torch.Tensor]
    ) -> list[torch.Tensor]:
        """The outputs of a built unit."""
        library.warpsmith_workspace_bytes.restype = ctypes.c_uint64
        outputs = []
        for name in unit.region.outputs:
            spec = graph.specs[name]
            made = torch.empty_strided(spec.shape, spec.stride, dtype=getattr(torch, spec.dtype))
            outputs.append(
                made.fill_(
                    float("nan") if made.is_floating_point() else 77 if made.dtype != torch.bool else True
                )
            )
        workspace = torch.full((library.warpsmith_workspace_bytes() + 64,), 0xAB, dtype=torch.uint8)
        start = (workspace.data_ptr() + 63) // 64 * 64
        ins = (ctypes.c_void_p * len(unit.region.inputs))(*[values[n].data_ptr() for n in unit.region.inputs])
        outs = (ctypes.c_void_p * len(outputs))(*[o.data_ptr() for o in outputs])
        library.warpsmith_run(ins, outs, ctypes.c_void_p(start), None)
        return outputs

    def check(self, unit: Unit, graph: Graph, args: tuple[torch.Tensor, ...], ulp: float = 8.0) -> None:
        """Every output within `ulp` float32 units of the float64 result's scale, or 3x torch's own error."""
        values = {i.name: a for i, a in zip(graph.inputs, args, strict=True)}
        wanted = set(unit.region.outputs)
        exact = run_graph(graph, values, float64=True, wanted=wanted)
        native = run_graph(graph, values, wanted=wanted | set(unit.region.inputs))
        values |= {n: native[n] for n in unit.region.inputs}
        for name, got in zip(unit.region.outputs, self.run(unit, graph, values), strict=True):
            assert got.dtype == native[name].dtype
            if not got.is_floating_point():
                assert torch.equal(got, native[name])
                continue
            truth, other = exact[name].double(), native[name].double()
            # Torch makes NaN of what is none: in half precision an epsilon of 1e-12 is 0, and a row of zeros NaN; its vectors
            # of floats make NaN of the GELU of infinity. A unit that is right there is compared with float64.
            lost = torch.isnan(other) & ~torch.isnan(truth) & ~torch.isnan(got)
            other = torch.where(lost, truth, other)
            _close(got.double(), truth, other, ulp * _epsilon(got.dtype))


def _epsilon(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps


def _close(got: torch.Tensor, exact: torch.Tensor, native: torch.Tensor, relative: float) -> None:
    finite = torch.isfinite(native)
    assert torch.equal(torch.isnan(got), torch.isnan(native))
    rest = ~finite & ~torch.isnan(native)
    assert torch.equal(got[rest], native[rest])
    if not finite.any():
        return
    scale = exact[finite].abs().max().clamp_min(1e-30)
    budget = relative * scale + 3 * (native[finite] - exact[finite]).abs().max()
    error = (got[finite] - exact[finite]).abs().max()
    assert error <= budget, f"error {error:.3e} exceeds {budget:.3e}"

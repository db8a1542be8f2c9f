"""A linear map and the sum behind it as the map of a sum: of the weights over their features, or of the rows of x.

Fewer operations than the reference does (see `algebra`), so its techniques are named "algebraic…": the win is labelled
*algorithmic*, and the unit carries the same rewrite in ATen to be measured against. The sums are found anew in every
call: weights are inputs like any other. They are flushed into double every BLOCK terms, so the result is at least as
accurate as summing the products. What differs is arithmetic on infinities: where the reference adds +inf and -inf to
NaN, the collapsed sum has one infinity.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...codegen.rewrites.algebra import SummedMap
from ...codegen.rewrites.rewriting import rewritten_region
from ...codegen.templates import render
from ...codegen.writer import SOME, Writer
from ...facts import Facts
from ...records import Graph, Region, Unit
from ..anchored import Anchor
from ..cpp_anchored import CppAnchored
from ..family import Technique, tunable, vector_tunable
from .collapse_pattern import CollapsePattern, read_summed_map


class CppCollapse(CollapsePattern, CppAnchored):
    def techniques(self, graph: Graph, region: Region, facts: Facts) -> list[Technique]:
        anchor = self.anchor(graph, region)
        if anchor is None:
            return []
        tunables = (vector_tunable(facts), tunable("BLOCK", 16, 8, 32), tunable("UNROLL", 4, 2, 8))
        return [self.technique(anchor, tunables)]

    def write(self, graph: Graph, region: Region, technique: Technique) -> Unit:
        unit, anchor = super().write(graph, region, technique), self.anchor(graph, region)
        assert anchor is not None  # what was written has one
        rewrite = rewritten_region(graph, region, read_summed_map(graph, anchor.node))
        return unit.model_copy(update={"rewrite": rewrite})

    def helpers(self, anchor: Anchor, technique: Technique) -> str:
        return SOME

    def body(self, w: Writer, anchor: Anchor, technique: Technique) -> str:
        mapped, names = read_summed_map(anchor.graph, anchor.node), anchor.names
        for helper in ("read", "flat"):
            w.use(helper)
        s, r, dims = names[mapped.summed.value], names[mapped.other.value], mapped.summed_dims
        # What each dimension of the result runs over: dimensions of the two factors.
        remaining = [y for y in range(len(mapped.summed.of)) if y not in mapped.dims]
        summed_axes, other_axes = (
            [mapped.summed.of[y] for y in remaining],
            [mapped.other.of[y] for y in remaining],
        )
        batches = [f"{s}_shape[{d}]" for d in summed_axes if d is not None]
        start, first = _bias(mapped, names, remaining)
        text = render(
            "gemm/cpu/summed_factor.h", summed=s, summed_shape=f"{s}_shape", summed_stride=f"{s}_stride",
            other=r, other_stride=f"{r}_stride", summed_inner=mapped.summed.inner, other_inner=mapped.other.inner,
            first=dims[0], last=dims[-1], batches=_product(batches),
            count=_product([f"{s}_shape[{d}]" for d in dims]), dims=len(remaining),
            rank=len(mapped.reduction.output.spec.shape),
            extents=", ".join(f"{s}_shape[{a}]" if a is not None else f"{r}_shape[{b}]"
                              for a, b in zip(summed_axes, other_axes, strict=True)),
            in_summed=_strides(s, summed_axes), in_other=_strides(r, other_axes), batch_of=_places(s, summed_axes),
            into=", ".join(str(y if mapped.keepdim else i) for i, y in enumerate(remaining)),
            start=start, total_start=first, scaled=_scale_sum(mapped),
        )  # fmt: skip
        w.paste(text)
        line = f"((uint64_t){s}_shape[{mapped.summed.inner}] + 31) / 16 * 16"
        return f"{line} * {_product(batches)} * sizeof(float)"


def _product(factors: Sequence[str]) -> str:
    return " * ".join(factors) or "1"


def _strides(name: str, dims: Sequence[int | None]) -> str:
    return ", ".join("0" if d is None else f"{name}_stride[{d}]" for d in dims)


def _places(name: str, dims: Sequence[int | None]) -> str:
    """Return each dimension's stride in the number of a batch."""
    later = [[f"{name}_shape[{d}]" for d in dims[i + 1 :] if d is not None] for i in range(len(dims))]
    return ", ".join("0" if d is None else _product(later[i]) for i, d in enumerate(dims))


def _bias(found: SummedMap, names: dict[str, str], kept: Sequence[int]) -> tuple[str, str]:
    """The bias that is in every sum, and what an output's own sum starts from."""
    if found.map.bias is None:
        return "0.0", "start"
    bias = names[found.map.bias]
    if not found.over_features:  # one bias an output, once for each row
        feature = found.map.feature if found.keepdim else list(kept).index(found.map.feature)
        return "0.0", f"start + (double)COUNT * ws::load_one({bias} + at[{feature}] * {bias}_stride[0])"
    read = f"return read<{bias}_stride[0]>({bias}, o"
    terms = f"[&](int64_t o) {{ {read}, VEC); }}, [&](int64_t o, int n) {{ {read}, n); }}"
    return f"ws::sum(COUNT, {terms})", "start"


def _scale_sum(found: SummedMap) -> str:
    text = "total"
    for sign, number in found.steps:
        text = f"{text} {sign} {number!r}"
    return f"({text}) / (double)COUNT" if found.mean else text

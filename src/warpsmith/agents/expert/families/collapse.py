"""A linear map and the sum over its outputs as one product with a vector, the sum of the weights' rows.

Fewer operations than the reference does (see `algebra`), so its technique is named "algebraic": the win is labelled
*algorithmic*. The sums of the weights are found anew in every call: weights are inputs like any other. They are
flushed into double every BLOCK rows, so the result is at least as accurate as summing the products. What differs is
arithmetic on infinities: where the reference adds +inf and -inf to NaN, the collapsed sum has one infinity.
"""

from __future__ import annotations

from collections.abc import Collection

from ....records import Graph, Node, Region
from ..algebra import SummedLinear, summed_linear
from ..emit.text import Writer
from ..facts import Facts
from .anchored import Anchor, AnchoredFamily, Core
from .base import Technique, tunable, vector_tunable

LEAST_FEATURES = 8  # outputs of the linear map from which on summing the weights first pays


class Collapse(AnchoredFamily):
    name = "collapse"

    def covers(self, graph: Graph, node: Node) -> bool:
        return summed_linear(graph, node) is not None

    def supports(self, graph: Graph, node: Node) -> bool:
        found = summed_linear(graph, node)
        return found is not None and graph.specs[found.weight].shape[found.features] >= LEAST_FEATURES

    def core(self, graph: Graph, node: Node, within: Collection[str]) -> Core:
        """The pattern; what lacks a node of it is not of this family, which `anchor` finds out."""
        found = summed_linear(graph, node)
        assert found is not None
        return Core(tuple(n.name for n in found.nodes), found.reduction.output.name, ())

    def cut(self, graph: Graph, node: Node, taken: Collection[str], fuse: bool) -> Region | None:
        found = summed_linear(graph, node)
        if found is None or any(n.name in taken for n in found.nodes):
            return None
        region = super().cut(graph, node, taken, fuse)
        return region if region is not None and self.anchor(graph, region) is not None else None

    def anchor(self, graph: Graph, region: Region) -> Anchor | None:
        found = super().anchor(graph, region)
        if found is None or found.core is None or not set(found.core.nodes) <= set(region.nodes):
            return None
        return found

    def techniques(self, graph: Graph, region: Region, facts: Facts) -> list[Technique]:
        if self.anchor(graph, region) is None:
            return []
        why = "a sum over the outputs of a linear map is one product with the sum of its weights"
        tunables = (vector_tunable(facts), tunable("BLOCK", 16, 8, 32), tunable("UNROLL", 4, 2, 8))
        return [Technique("algebraic-collapse", why, "memory", tunables, gain=1.0)]

    def body(self, w: Writer, anchor: Anchor, technique: Technique) -> str:
        found = summed_linear(anchor.graph, anchor.node)
        assert found is not None
        names = anchor.names
        weight, given = names[found.weight], names[found.given]
        o, k = found.features, 1 - found.features
        w.use("read")
        _write(w, _WEIGHTS, {"@W": weight, "@O": str(o), "@K": str(k)})
        bias = names[found.bias] if found.bias is not None else ""
        _write(w, _BIAS.replace("@B", bias) if bias else "const double start = 0.0;\n", {})
        rank = len(anchor.graph.specs[found.given].shape)
        rows = " * ".join(f"{given}_shape[{d}]" for d in range(rank - 1))
        marks = {"@X": given, "@LAST": str(rank - 1), "@ROWS": rows, "@SCALED": _scaled(found)}
        _write(w, _PRODUCT, marks)
        return f"((uint64_t){weight}_shape[{k}] + 31) / 16 * 16 * (sizeof(double) + sizeof(float))"


def _write(w: Writer, text: str, marks: dict[str, str]) -> None:
    for mark, value in marks.items():
        text = text.replace(mark, value)
    for line in text.splitlines():
        w.line(line)


def _scaled(found: SummedLinear) -> str:
    text = "total"
    for sign, number in found.steps:
        text = f"{text} {sign} {number!r}"
    return f"({text}) / (double)FEATURES" if found.mean else text


_WEIGHTS = """\
constexpr int64_t FEATURES = @W_shape[@O], K = @W_shape[@K];
constexpr int64_t along = @W_stride[@K], across = @W_stride[@O];
double* const sums = (double*)workspace;  // of the weights over the features
float* const vector = (float*)(sums + (K + 31) / 16 * 16);
constexpr int64_t grain = 1 + (1 << 15) / (FEATURES > 0 ? FEATURES : 1);
ws::parallel_ranges(THREADS, K, grain, [&](int64_t begin, int64_t end, int) {
  if constexpr (across == 1 && along != 1) {
    for (int64_t k = begin; k < end; ++k) {
      const auto at = [&](int64_t o) { return read<across>(@W + k * along, o, VEC); };
      const auto at_n = [&](int64_t o, int n) { return read<across>(@W + k * along, o, n); };
      vector[k] = (float)ws::sum<UNROLL>(FEATURES, at, at_n);
    }
  } else {
    const int64_t whole = (end - begin + VEC - 1) / VEC * VEC;
    __builtin_memset(sums + begin, 0, (size_t)whole * sizeof(double));
    const auto add = [&](int64_t o, auto block) {
      for (int64_t k = begin; k < end; k += VEC) {
        const int n = (int)(end - k < VEC ? end - k : VEC);
        ws::vf part{};
#pragma GCC unroll 32
        for (int64_t i = 0; i < (int64_t)sizeof(block); ++i) part += read<along>(@W + (o + i) * across, k, n);
        *(ws::vd_mem*)(sums + k) += ws::widen(part);
      }
    };
    struct Many { char size[BLOCK]; };
    int64_t o = 0;
    for (; o + BLOCK <= FEATURES; o += BLOCK) add(o, Many{});
    for (; o < FEATURES; ++o) add(o, char{});
    for (int64_t k = begin; k < end; ++k) vector[k] = (float)sums[k];
  }
}, 64);
"""

_BIAS = """\
const auto bias = [&](int64_t o) { return read<@B_stride[0]>(@B, o, VEC); };
const auto bias_n = [&](int64_t o, int n) { return read<@B_stride[0]>(@B, o, n); };
const double start = ws::sum(FEATURES, bias, bias_n);
"""

_PRODUCT = """\
constexpr int64_t rows = @ROWS;
ws::parallel_ranges(THREADS, rows, 1 + (1 << 15) / (K + 1), [&](int64_t begin, int64_t end, int) {
  for (int64_t row = begin; row < end; ++row) {
    int64_t at[@LAST + 1], rest = row, offset = 0;
    for (int d = @LAST - 1; d >= 0; --d) {
      at[d] = rest % @X_shape[d];
      rest /= @X_shape[d];
      offset += at[d] * @X_stride[d];
    }
    at[@LAST] = 0;
    const auto term = [&](int64_t k) { return read<@X_stride[@LAST]>(@X + offset, k, VEC) * ws::load(vector + k); };
    const auto term_n = [&](int64_t k, int n) { return read<@X_stride[@LAST]>(@X + offset, k, n) * ws::load_n(vector + k, n); };
    const double total = start + ws::sum<UNROLL>(K, term, term_n);
    const float acc = (float)(@SCALED);
    epilogue(&acc, at, 1);
  }
});
"""

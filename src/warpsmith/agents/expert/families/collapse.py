"""A linear map and the sum behind it as the map of a sum: of the weights over their features, or of the rows of x.

Fewer operations than the reference does (see `algebra`), so its techniques are named "algebraic…": the win is labelled
*algorithmic*, and the unit carries the same rewrite in ATen to be measured against. The sums are found anew in every
call: weights are inputs like any other. They are flushed into double every BLOCK terms, so the result is at least as
accurate as summing the products. What differs is arithmetic on infinities: where the reference adds +inf and -inf to
NaN, the collapsed sum has one infinity.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from math import prod

from ....records import Graph, Node, Region, TensorSpec, Unit
from ...facts import Facts
from ..algebra import SummedMap, summed_map
from ..emit.text import SOME, Writer
from ..rewriting import rewritten_region
from .anchored import Anchor, AnchoredFamily, Core
from .base import Technique, tunable, vector_tunable

LEAST_SUMMED = 8  # terms of the sum from which on taking it first pays
FAR = 8  # elements between neighbours of the other factor's rows, beyond which each costs a cache line


class Collapse(AnchoredFamily):
    name = "collapse"

    def covers(self, graph: Graph, node: Node) -> bool:
        return summed_map(graph, node) is not None

    def supports(self, graph: Graph, node: Node) -> bool:
        found = summed_map(graph, node)
        if found is None:
            return False
        summed, other = graph.specs[found.summed.value], graph.specs[found.other.value]
        near = other.stride[found.other.inner] <= FAR or other.shape[found.other.inner] == 1
        terms = prod(summed.shape[d] for d in found.summed_dims)
        return near and terms >= LEAST_SUMMED and _walked_as_one(summed, found.summed_dims)

    def core(self, graph: Graph, node: Node, within: Collection[str]) -> Core:
        found = pattern(graph, node)
        return Core(tuple(n.name for n in found.nodes), found.reduction.output.name, ())

    def techniques(self, graph: Graph, region: Region, facts: Facts) -> list[Technique]:
        anchor = self.anchor(graph, region)
        if anchor is None:
            return []
        tunables = (vector_tunable(facts), tunable("BLOCK", 16, 8, 32), tunable("UNROLL", 4, 2, 8))
        if pattern(graph, anchor.node).over_features:
            why = "a sum over the outputs of a linear map is one product with the sum of its weights"
            return [Technique("algebraic-collapse", why, "memory", tunables)]
        why = "a sum over the rows of a linear map is the map of their sum, one row instead of all"
        return [Technique("algebraic-pool-first", why, "memory", tunables)]

    def write(self, graph: Graph, region: Region, technique: Technique) -> Unit:
        unit, anchor = super().write(graph, region, technique), self.anchor(graph, region)
        assert anchor is not None  # what was written has one
        rewrite = rewritten_region(graph, region, pattern(graph, anchor.node))
        return unit.model_copy(update={"rewrite": rewrite})

    def helpers(self, anchor: Anchor, technique: Technique) -> str:
        return SOME

    def body(self, w: Writer, anchor: Anchor, technique: Technique) -> str:
        found, names = pattern(anchor.graph, anchor.node), anchor.names
        for helper in ("read", "flat"):
            w.use(helper)
        s, r, dims = names[found.summed.value], names[found.other.value], found.summed_dims
        # What each dimension of the result runs over: dimensions of the two factors.
        kept = [y for y in range(len(found.summed.of)) if y not in found.dims]
        ours, theirs = [found.summed.of[y] for y in kept], [found.other.of[y] for y in kept]
        batches = [f"{s}_shape[{d}]" for d in ours if d is not None]
        start, first = _bias(found, names, kept)
        marks = {
            "@S": s, "@R": r, "@SK": str(found.summed.inner), "@RK": str(found.other.inner),
            "@FIRST": str(dims[0]), "@LAST": str(dims[-1]), "@BATCHES": _product(batches),
            "@COUNT": _product([f"{s}_shape[{d}]" for d in dims]), "@DIMS": str(len(kept)),
            "@RANK": str(len(found.reduction.output.spec.shape)),
            "@EXTENTS": ", ".join(f"{s}_shape[{a}]" if a is not None else f"{r}_shape[{b}]"
                                  for a, b in zip(ours, theirs, strict=True)),
            "@IN_S": _strides(s, ours), "@IN_R": _strides(r, theirs), "@BATCH": _places(s, ours),
            "@INTO": ", ".join(str(y if found.keepdim else i) for i, y in enumerate(kept)),
            "@START": start, "@FROM": first, "@SCALED": _scaled(found),
        }  # fmt: skip
        for text in (_SHAPES, _SUMS, _PRODUCT):
            _write(w, text, marks)
        line = f"((uint64_t){s}_shape[{found.summed.inner}] + 31) / 16 * 16"
        return f"{line} * {_product(batches)} * sizeof(float)"


def pattern(graph: Graph, node: Node) -> SummedMap:
    found = summed_map(graph, node)
    assert found is not None  # `supports` refuses other nodes
    return found


def _walked_as_one(spec: TensorSpec, dims: Sequence[int]) -> bool:
    """Neighbouring dimensions that one stride steps through."""
    if list(dims) != list(range(dims[0], dims[-1] + 1)):
        return False
    wide = [d for d in dims if spec.shape[d] != 1]
    return all(spec.stride[a] == spec.shape[b] * spec.stride[b] for a, b in pairwise(wide))


def _product(factors: Sequence[str]) -> str:
    return " * ".join(factors) or "1"


def _strides(name: str, dims: Sequence[int | None]) -> str:
    return ", ".join("0" if d is None else f"{name}_stride[{d}]" for d in dims)


def _places(name: str, dims: Sequence[int | None]) -> str:
    """What a step along each dimension counts for in the number of a batch."""
    later = [[f"{name}_shape[{d}]" for d in dims[i + 1 :] if d is not None] for i in range(len(dims))]
    return ", ".join("0" if d is None else _product(later[i]) for i, d in enumerate(dims))


def _bias(found: SummedMap, names: dict[str, str], kept: Sequence[int]) -> tuple[str, str]:
    """The bias that is in every sum, and what an output's own sum starts from."""
    if found.map.bias is None:
        return "0.0", "start"
    bias = names[found.map.bias]
    if not found.over_features:  # one bias an output, once for each row
        place = found.map.feature if found.keepdim else list(kept).index(found.map.feature)
        return "0.0", f"start + (double)COUNT * ws::load_one({bias} + at[{place}] * {bias}_stride[0])"
    read = f"return read<{bias}_stride[0]>({bias}, o"
    terms = f"[&](int64_t o) {{ {read}, VEC); }}, [&](int64_t o, int n) {{ {read}, n); }}"
    return f"ws::sum(COUNT, {terms})", "start"


def _scaled(found: SummedMap) -> str:
    text = "total"
    for sign, number in found.steps:
        text = f"{text} {sign} {number!r}"
    return f"({text}) / (double)COUNT" if found.mean else text


def _write(w: Writer, text: str, marks: dict[str, str]) -> None:
    for mark in sorted(marks, key=len, reverse=True):  # @SK before @S
        text = text.replace(mark, marks[mark])
    for line in text.splitlines():
        w.line(line)


# S is the factor that is summed, R the other one; `extent` … are of the result's dimensions.
_SHAPES = """\
constexpr int64_t K = @S_shape[@SK], COUNT = @COUNT, BATCHES = @BATCHES;
constexpr int64_t LINE = (K + 31) / 16 * 16;  // of a batch's sums, floats
constexpr int64_t along = @S_stride[@SK], across = pace(@S_shape, @S_stride, @FIRST, @LAST);
static_assert(flat(@S_shape, @S_stride, @FIRST, @LAST), "requires: summed dimensions without gaps between them");
constexpr int64_t extent[] = {@EXTENTS}, in_s[] = {@IN_S}, in_r[] = {@IN_R}, batch_of[] = {@BATCH};
constexpr int into[] = {@INTO};
float* const sums = (float*)workspace;
const double start = @START;
"""

_SUMS = """\
ws::parallel_ranges(THREADS, BATCHES * K, 1 + (1 << 15) / (COUNT + 1), [&](int64_t begin, int64_t end, int) {
  for (int64_t q = begin, length; q < end; q += length) {
    const int64_t batch = q / some(K), first = q % some(K);
    length = end - q < K - first ? end - q : K - first;
    int64_t rest = batch, offset = first * along;
    for (int d = @DIMS - 1; d >= 0; --d) {
      if (batch_of[d] == 0) continue;
      offset += rest % extent[d] * in_s[d];
      rest /= extent[d];
    }
    const auto* const from = @S + offset;
    float* const to = sums + batch * LINE + first;
    if constexpr (across == 1 && along != 1) {
      for (int64_t k = 0; k < length; ++k) {
        const auto at = [&](int64_t o) { return read<1>(from + k * along, o, VEC); };
        const auto at_n = [&](int64_t o, int n) { return read<1>(from + k * along, o, n); };
        to[k] = (float)ws::sum<UNROLL>(COUNT, at, at_n);
      }
    } else {
      constexpr int64_t MOST = 2048;  // columns at a time, in the first-level cache
      struct Many { char size[BLOCK]; };
      for (int64_t start = 0; start < length; start += MOST) {
        const int64_t columns = length - start < MOST ? length - start : MOST;
        double total[MOST + VEC];
        __builtin_memset(total, 0, (size_t)(columns + VEC) * sizeof(double));
        const auto add = [&](int64_t o, auto block) {
          for (int64_t k = 0; k < columns; k += VEC) {
            const int n = (int)(columns - k < VEC ? columns - k : VEC);
            ws::vf part{};
#pragma GCC unroll 32
            for (int64_t i = 0; i < (int64_t)sizeof(block); ++i)
              part += read<along>(from + (o + i) * across, start + k, n);
            *(ws::vd_mem*)(total + k) += ws::widen(part);
          }
        };
        int64_t o = 0;
        for (; o + BLOCK <= COUNT; o += BLOCK) add(o, Many{});
        for (; o < COUNT; ++o) add(o, char{});
        for (int64_t k = 0; k < columns; ++k) to[start + k] = (float)total[k];
      }
    }
  }
}, 64);
"""

_PRODUCT = """\
int64_t results = 1;
for (const int64_t n : extent) results *= n;
ws::parallel_ranges(THREADS, results, 1 + (1 << 15) / (K + 1), [&](int64_t begin, int64_t end, int) {
  for (int64_t result = begin; result < end; ++result) {
    int64_t at[@RANK] = {}, rest = result, offset = 0, batch = 0;
    for (int d = @DIMS - 1; d >= 0; --d) {
      const int64_t i = rest % extent[d];
      rest /= extent[d];
      at[into[d]] = i;
      offset += i * in_r[d];
      batch += i * batch_of[d];
    }
    const auto* const row = @R + offset;
    const float* const vector = sums + batch * LINE;
    const auto term = [&](int64_t k) { return read<@R_stride[@RK]>(row, k, VEC) * ws::load(vector + k); };
    const auto term_n = [&](int64_t k, int n) { return read<@R_stride[@RK]>(row, k, n) * ws::load_n(vector + k, n); };
    const double total = @FROM + ws::sum<UNROLL>(K, term, term_n);
    const float acc = (float)(@SCALED);
    epilogue(&acc, at, 1);
  }
});
"""

"""A mapping as the body of a kernel, in one of three shapes.

- `Runs`: rows of the output's innermost loop, tile by tile; what is not dense along it is fetched lane by lane.
- `Tiles`: rectangles of the innermost loop and another one along which inputs are dense; those inputs are transposed
  in registers into a scratch tile, then the rectangle is computed row by row.
- `Interleaved`: the innermost loop is short (pixel shuffle, pairs): lanes run along the loop above it, the short
  streams that result are woven together.

In: a `Mapping`. Out: lines of C++ inside `unit`, and the constants that go before it. Raises Unsupported.
"""

from __future__ import annotations

from ....codegen.addresses import Addresses
from ....codegen.expressions import VECTOR_TYPE, WRITE, Express
from ....codegen.program import Expr, Program, Unsupported
from ....codegen.writer import INLINE, Writer
from .cases import Cases, Leaf, Ranges
from .map_loops import NEAR, Access, Loops
from .pull import Mapping

READ = {"f": "fetch", "m": "read_bool", "l": "read_int"}


class Runs:
    """The common part, and the plain shape. `lane`: the loop that vectors run along."""

    def __init__(self, mapping: Mapping) -> None:
        self.mapping, self.loops, self.w = mapping, Loops(mapping), Writer()
        self.lane = self.loops.last
        self.turned: frozenset[str] = frozenset()  # loads that are read from a transposed tile
        self.w.helpers |= {"vectors", "write", "write_bool", "write_index", "read_bool", "read_int"}

    def constants(self) -> str:
        w = Writer()
        self.loops.declare(w)
        self.w.helpers |= w.helpers
        return w.text()

    def write(self) -> None:
        """Tasks are pieces of TILE elements of rows."""
        w, last = self.w, self.loops.last
        outer = self._product(range(last))
        w.line(f"constexpr int64_t rows = {outer}, tiles = (g{last}_size + TILE - 1) / TILE;")
        w.line(f"constexpr int64_t span = g{last}_size < TILE ? g{last}_size : TILE;")
        with self._tasks("rows * tiles", "span"):
            self._decode("task / nonzero(tiles)", list(range(last)))
            ranges = {last: self._piece("task % nonzero(tiles)", "TILE", last)}
            Cases(w, self.loops, self._leaf).write(ranges)

    # ---- pieces

    def _product(self, groups: range | list[int]) -> str:
        return " * ".join(f"g{i}_size" for i in groups) or "1"

    def _tasks(self, count: str, span: str) -> _Tasks:
        """The loop over tasks, spread over threads; below GRAIN elements no further thread is woken."""
        grain = f"constexpr int64_t grain = {span} >= GRAIN ? 1 : GRAIN / nonzero({span});"
        return _Tasks(self.w, grain, count)

    def _decode(self, number: str, groups: list[int]) -> None:
        """g0, g1 … of a row of tasks."""
        if groups:
            self.w.line(f"const int64_t row = {number};")
        for at, i in enumerate(groups):
            below = self._product(groups[at + 1 :])
            quotient = "row" if below == "1" else f"row / nonzero({below})"
            modulus = f" % nonzero(g{i}_size)" if at else ""
            self.w.line(f"const int64_t g{i} = {quotient}{modulus};")

    def _piece(self, number: str, size: str, group: int) -> tuple[str, str]:
        w = self.w
        low, high, end = f"low{group}", f"high{group}", f"g{group}_size"
        w.line(f"const int64_t {low} = {number} * {size};")
        w.line(f"const int64_t {high} = {low} + {size} < {end} ? {low} + {size} : {end};")
        return low, high

    def _leaf(self, leaf: Leaf) -> None:
        low, high = leaf.ranges[self.lane]
        self._row(leaf, low, high, f"out0{self._at(self.loops.out, low)}", stream=True)

    def _row(self, leaf: Leaf, low: str, high: str, out: str, stream: bool) -> None:
        """One run of lanes: where each operand starts, then the expression."""
        w = self.w
        self._lookups(leaf, low)
        for step in leaf.steps:
            if step.operand is not None and step.name not in self.turned:
                access = self.loops.loads[step.name]
                start = f"{access.operand}{self._at(access, low)}{self._emit_lookups(access)}"
                w.line(f"const {access.operand}_t* const {step.name}_at = {start};")
        kind = self.mapping.steps[leaf.root].kind
        w.line(f"{'out0_t' if stream else 'float'}* const out0_at = {out};")
        with w.block(f"vectors(0, {high} - {low}, [&](int64_t j, int n, int) {INLINE}", "});"):
            fetch = _Fetch(leaf, self)
            fetch.vector(leaf.steps, lambda name: name, lanes_rows=False)
            root = fetch.table[leaf.root]
            value = fetch.splat(root) if fetch.constant(root) else leaf.root
            lane_stride = f"out0_g{self.lane}" if stream else "1"
            if kind != "f":
                helper = WRITE[self.mapping.graph.specs[self.mapping.output].dtype]
                w.use(helper)
                w.line(f"{helper}<{lane_stride}>(out0_at, j, {value}, n);")
            else:
                w.line(f"write<{lane_stride}{', NT' if stream else ''}>(out0_at, j, {value}, n);")

    def _at(self, access: Access, low: str) -> str:
        """Return the start of the run: all loops at their points, the lanes at `low`."""
        lanes = f" + {low} * {access.name}_g{self.lane}" if self.loops.moves(access, self.lane) else ""
        return self.loops.offset(access, frozenset({self.lane})) + lanes

    def _lookups(self, leaf: Leaf, low: str) -> None:
        """Entries that all lanes share, and where those that they do not share lie."""
        done: set[str] = set()
        for access in (self.loops.loads[s.name] for s in leaf.steps if s.operand is not None):
            for name, _ in access.lookups:
                if name in done or access.name in self.turned:
                    continue
                done.add(name)
                table = self.loops.tables[name]
                start = f"{table.operand}{self._at(table, low)}"
                if self.loops.moves(table, self.lane):
                    self.w.line(f"const {table.operand}_t* const {name}_at = {start};")
                else:
                    wrap = self.mapping.tables[name].wrap
                    self.w.line(f"const int64_t {name}_row = entry<{wrap.text if wrap else 0}>(*({start}));")

    def _emit_lookups(self, access: Access) -> str:
        shared = [(t, s) for t, s in access.lookups if not self.loops.moves(self.loops.tables[t], self.lane)]
        return "".join(f" + {t}_row * ({s.text})" for t, s in shared)

    def lane_offset(self, access: Access) -> str:
        """Return the offset that lane i adds through the tables whose entries differ from lane to lane, as the tail of an expression."""
        offset = ""
        for name, scale in access.lookups:
            table = self.loops.tables[name]
            if self.loops.moves(table, self.lane):
                wrap = self.mapping.tables[name].wrap
                at = f"{name}_at[(j + i) * {name}_g{self.lane}]"
                offset += f" + entry<{wrap.text if wrap else 0}>({at}) * ({scale.text})"
        return offset


class Tiles(Runs):
    """See the module's text. `across`: the loop along which the transposed inputs are dense."""

    def __init__(self, mapping: Mapping) -> None:
        super().__init__(mapping)
        candidates = self.loops.dense_elsewhere()
        if not candidates:
            raise Unsupported("nothing to transpose")
        runs = list(candidates.values())
        self.across = max(runs, key=runs.count)
        self.turned = frozenset(n for n, k in candidates.items() if k == self.across)

    def write(self) -> None:
        w, last, k = self.w, self.loops.last, self.across
        outer = [i for i in range(last) if i != k]
        w.line(f"constexpr int64_t rows = {self._product(outer)};")
        w.line(
            f"constexpr int64_t tiles = (g{last}_size + TILE - 1) / TILE, strips = (g{k}_size + STRIP - 1) / STRIP;"
        )
        with self._tasks("rows * strips * tiles", "(TILE * STRIP)"):
            self._decode("task / nonzero(strips * tiles)", outer)
            ranges = {k: self._piece("task / nonzero(tiles) % nonzero(strips)", "STRIP", k)}
            ranges[last] = self._piece("task % nonzero(tiles)", "TILE", last)
            Cases(w, self.loops, self._leaf).write(ranges)

    def _leaf(self, leaf: Leaf) -> None:
        w, k = self.w, self.across
        (first, end), (low, high) = leaf.ranges[k], leaf.ranges[self.lane]
        turned = [s.name for s in leaf.steps if s.name in self.turned]
        for name in turned:
            access = self.loops.loads[name]
            start = f"{access.operand}{self.loops.offset(access, frozenset({k, self.lane}))}"
            start += f" + {first} * {name}_g{k} + {low} * {name}_g{self.lane}"
            w.line(f'static_assert({name}_g{k} == 1 || g{k}_size == 1, "requires: {access.operand} dense");')
            w.line(f"alignas(64) float {name}_tile[STRIP * TILE];")
            w.line(
                f"transpose({name}_tile, TILE, {start}, {name}_g{self.lane}, {high} - {low}, {end} - {first});"
            )
        with w.block(f"for (int64_t g{k} = {first}; g{k} < {end}; ++g{k})"):
            for name in turned:
                w.line(f"const float* const {name}_at = {name}_tile + (g{k} - {first}) * TILE;")
            self._row(leaf, low, high, f"out0{self._at(self.loops.out, low)}", stream=True)


class Interleaved(Runs):
    """See the module's text."""

    def __init__(self, mapping: Mapping) -> None:
        super().__init__(mapping)
        last = self.loops.last
        if (
            last == 0
            or not 2 <= self.loops.extent(last) <= 2 * NEAR
            or mapping.steps[mapping.root].kind != "f"
        ):
            raise Unsupported("no short innermost loop")
        if self.loops.step(self.loops.out, last) != 1:
            raise Unsupported("an output that is not dense")
        self.lane = last - 1

    def write(self) -> None:
        w, short, k = self.w, self.loops.last, self.lane
        w.line(f'static_assert(g{short}_size <= 64, "requires: few elements in the innermost dimension");')
        w.line(
            f"static_assert(g{k}_size <= 1 || out0_g{k} == g{short}_size * (g{short}_size > 1 ? out0_g{short} : 1), "
            '"requires: a dense output");'
        )
        w.line(f"constexpr int64_t rows = {self._product(range(k))}, tiles = (g{k}_size + TILE - 1) / TILE;")
        w.line("constexpr int64_t pitch = TILE + VEC;")
        with self._tasks("rows * tiles", f"(TILE * g{short}_size)"):
            self._decode("task / nonzero(tiles)", list(range(k)))
            low, high = self._piece("task % nonzero(tiles)", "TILE", k)
            w.line(
                f"alignas(64) float part[nonzero(g{short}_size) * pitch], woven[nonzero(g{short}_size) * pitch];"
            )
            ranges: Ranges = {k: (low, high), short: ("(int64_t)0", f"g{short}_size")}
            Cases(w, self.loops, self._leaf).write(ranges)
            w.line(f"interleave<g{short}_size>(woven, part, pitch, {high} - {low});")
            out = f"out0{self.loops.offset(self.loops.out, frozenset({k, short}))} + {low} * g{short}_size"
            w.line(f"out0_t* const to = {out};")
            with w.block(
                f"vectors(0, ({high} - {low}) * g{short}_size, [&](int64_t j, int n, int) {INLINE}", "});"
            ):
                w.line("write<1, NT>(to, j, ws::load(woven + j), n);")

    def _leaf(self, leaf: Leaf) -> None:
        k, short = self.lane, self.loops.last
        (low, high), (first, end) = leaf.ranges[k], leaf.ranges[short]
        with self.w.block(f"for (int64_t g{short} = {first}; g{short} < {end}; ++g{short})"):
            self._row(leaf, low, high, f"part + g{short} * pitch + ({low} - low{k})", stream=False)


class _Tasks:
    """`with`: the body of one task."""

    def __init__(self, w: Writer, grain: str, count: str) -> None:
        head = f"ws::parallel_ranges(THREADS, {count}, grain, [&](int64_t begin, int64_t end_task, int)"
        w.line(grain)
        self.w = w
        self._outer, self._inner = (
            w.block(head, "});"),
            w.block("for (int64_t task = begin; task < end_task; ++task)"),
        )

    def __enter__(self) -> None:
        self._outer.__enter__()
        self._inner.__enter__()

    def __exit__(self, *_: object) -> None:
        self._inner.__exit__(None, None, None)
        self.w.line("if (NT) ws::fence();")
        self._outer.__exit__(None, None, None)


class _Fetch(Express):
    """Expressions of a leaf, with loads at any distance, from tiles, or through tables."""

    def __init__(self, leaf: Leaf, runs: Runs) -> None:
        super().__init__(Program((), (), leaf.steps, ()), Addresses(), runs.w)
        self.runs = runs

    def load(self, step: Expr, j: str, n: str) -> str:
        name, runs = step.name, self.runs
        lane_stride = f"{name}_g{runs.lane}"
        offset = runs.lane_offset(runs.loops.loads[name])
        if name in runs.turned:
            return f"fetch<1>({name}_at, {j}, {n})"
        if offset:
            element = f"{name}_at[(j + i) * {lane_stride}{offset}]"
            value = {"f": f"ws::load_one(&{element})", "m": f"-(int){element}", "l": element}[step.kind]
            kind = VECTOR_TYPE[step.kind]
            return f"[&] {{ {kind} v{{}}; for (int i = 0; i < n; ++i) v[i] = {value}; return v; }}()"
        return f"{READ[step.kind]}<{lane_stride}>({name}_at, {j}, {n})"

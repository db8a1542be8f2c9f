"""A mapping as one CUDA kernel: a thread takes UNROLL packs of neighbouring outputs, and fetches what each is made of from where it lies.

In: a `Mapping`. Out: `CudaBody`. A choice (concatenation, padding …) is the same for a whole pack: packs are no wider than what divides
all of its bounds. So a load is made where its case is taken, without a branch, and all loads of a thread are under way at
once. Where an input has its neighbours along another loop (a transposition), neighbouring threads run along that loop first. Raises Unsupported.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....codegen.addresses import Addresses, split_index
from ....codegen.cuda.cuda_source import CudaBody, Launch, parameters
from ....codegen.cuda.lanes import KINDS
from ....codegen.expressions import SCALAR_TYPE, Express
from ....codegen.program import Expr, Program, Unsupported, operand_names
from ....codegen.templates import render
from ....codegen.writer import Writer
from ..index_maps.map_loops import Access, Loops
from ..index_maps.pull import Choice, Mapping

MOST_PATHS = 64  # ways from the output to loads
Path = frozenset[tuple[str, int]]  # cases that are taken: a choice's name for its key, number


class GatherKernel:
    def __init__(self, mapping: Mapping) -> None:
        self.mapping, self.loops, self.top, self.w = mapping, Loops(mapping), Writer(), Writer()
        self.lane = self.loops.last
        self.keys = {
            key: f"at{i}" for i, key in enumerate(dict.fromkeys(c.key for c in mapping.choices.values()))
        }
        self.paths = self._find_paths()
        across = list(self.loops.dense_elsewhere().values())
        self.across = max(across, key=across.count) if across else None

    def body(self) -> CudaBody:
        self._constants()
        w, names = self.w, list(operand_names(self.mapping.region).values())
        with w.block(f"__global__ void __launch_bounds__(BLOCK) gather({', '.join(parameters(names))})"):
            for name, access in self.loops.loads.items():
                w.line(f"ws::Pack<{access.operand}_t, V> {name}_pack[UNROLL];")
            for phase in (self._read, self._write):
                w.line("#pragma unroll")
                with w.block("for (int u = 0; u < UNROLL; u++)"):
                    self._place()
                    phase()
        launch = Launch("gather", "ws::ceil_div(TASKS, (int64_t)BLOCK * UNROLL)", "BLOCK")
        return CudaBody(self.top, w, (launch,))

    def _constants(self) -> None:
        top, g = self.top, f"g{self.lane}_size"
        top.paste(render("data_movement/cpu/nonzero.h"))
        self.loops.declare(top)
        top.line(f"constexpr int V = {self._width()};")
        rows = " * ".join(f"g{i}_size" for i in range(self.lane)) or "1"
        top.line(f"constexpr int64_t ROWS = {rows}, PACKS = {g} / V, TASKS = ROWS * PACKS;")
        top.line("using index_t = ws::Int<TASKS * V + BLOCK * UNROLL * V>;")
        if self.across is not None:
            tile = f"g{self.across}_size % TILE_ROWS == 0 ? TILE_ROWS : 1"
            top.line(f"constexpr int64_t TILE = {tile};  // of the rows that neighbouring threads take first")
        for access in (self.loops.out, *self.loops.loads.values()):
            top.line(f"constexpr bool {access.name}_whole = {self._test_alignment(access)};")

    def _width(self) -> str:
        """Elements of a pack, as C++: a power of two that divides the rows, and the bounds of what is chosen along them."""
        lookups = {t for access in self.loops.loads.values() for t, _ in access.lookups}
        if any(self.loops.moves(self.loops.tables[t], self.lane) for t in lookups):
            return "1"
        width = f"ws::widest(g{self.lane}_size, VEC)"
        for index, bounds in self.keys:
            terms = [(v, c) for v, c in index.terms if self.loops.where[v] == self.lane]
            if not terms:
                continue
            if len(index.terms) > 1 or len(self.loops.groups[self.lane]) > 1 or terms[0][1].text != "1":
                return "1"
            for bound in bounds:
                width = f"ws::widest({(bound - index.const).text}, {width})"
        return width

    def _test_alignment(self, access: Access) -> str:
        """Tell, as C++, whether every pack of an operand begins at a multiple of a pack."""
        steps = [f"{access.name}_g{i}" for i in range(self.lane) if self.loops.moves(access, i)]
        steps += [f"({scale.text})" for _, scale in access.lookups]
        steps += [] if access.base.zero else [f"({access.base.text})"]
        return " && ".join(f"{step} % V == 0" for step in steps) or "true"

    def _place(self) -> None:
        """g0, g1 … of a thread's pack; those of the loop along which an input is dense count fastest, within tiles."""
        w, lane, rows = self.w, f"g{self.lane}", list(range(self.lane))
        w.line("const index_t all = (index_t)blockIdx.x * (BLOCK * UNROLL) + u * BLOCK + threadIdx.x;")
        w.line("if (all >= TASKS) continue;")
        if self.across is None:
            w.line("[[maybe_unused]] const index_t row = all / (index_t)PACKS;")
            w.line("const index_t task = all % (index_t)PACKS;")
        else:
            rows = [*(i for i in rows if i != self.across), self.across]
            w.line(
                "const index_t tile = all / (index_t)(TILE * PACKS), inside = all % (index_t)(TILE * PACKS);"
            )
            w.line(
                "const index_t row = tile * (index_t)TILE + inside % (index_t)TILE, task = inside / (index_t)TILE;"
            )
        split_index(w, "row", [(f"g{i}", f"nonzero(g{i}_size)") for i in rows], "index_t", "(index_t)")
        w.line(f"[[maybe_unused]] const index_t {lane} = task * V;")
        for (index, _), name in self.keys.items():
            w.line(f"[[maybe_unused]] const int64_t {name} = {self.loops.point(index)};")

    def _read(self) -> None:
        tables: set[str] = set()
        for name, access in self.loops.loads.items():
            condition = self._condition(self.paths[name])
            for table, _ in access.lookups:
                if table not in tables:
                    self._look_up(table)
                    tables.add(table)
            start = f"{access.operand}{self.loops.offset(access)}"
            start += "".join(f" + {table}_entry * ({scale.text})" for table, scale in access.lookups)
            stride = f"{name}_g{self.lane}" if self.loops.moves(access, self.lane) else "0"
            read = f"ws::read<V, {stride}, {name}_whole>({start})"
            empty = f"ws::Pack<{access.operand}_t, V>{{}}"
            self.w.line(f"{name}_pack[u] = {f'{condition} ? {read} : {empty}' if condition else read};")

    def _look_up(self, table: str) -> None:
        """An entry of a table of indices, where a load needs it; negative ones count from the end."""
        access, wrap = self.loops.tables[table], self.mapping.tables[table].wrap
        paths = [p for n, a in self.loops.loads.items() if table in dict(a.lookups) for p in self.paths[n]]
        condition = self._condition(paths)
        entry = f"(int64_t)*({access.operand}{self.loops.offset(access)})"
        self.w.line(f"int64_t {table}_entry = {f'{condition} ? {entry} : 0' if condition else entry};")
        if wrap is not None:
            self.w.line(f"if ({table}_entry < 0) {table}_entry += {wrap.text};")

    def _write(self) -> None:
        w, mapping = self.w, self.mapping
        steps = self._list_needed(mapping.root)
        express = _Elements(steps, w)
        w.line("ws::Pack<out0_t, V> made;")
        w.line("#pragma unroll")
        with w.block("for (int v = 0; v < V; v++)"):
            for step in steps:
                choice = mapping.choices.get(step.name)
                if choice is not None:
                    w.line(f"const {SCALAR_TYPE[step.kind]} {step.name} = {self._chosen(choice, express)};")
                elif not express.constant(step):
                    w.line(f"const {SCALAR_TYPE[step.kind]} {step.name} = {express.text(step)};")
            w.line(f"made.at[v] = ws::narrowed<out0_t>({express.value(mapping.root)});")
        out = self.loops.out
        stride = f"out0_g{self.lane}" if self.loops.moves(out, self.lane) else "0"
        w.line(f"ws::write<V, {stride}, out0_whole, NT>(out0{self.loops.offset(out)}, made);")

    def _chosen(self, choice: Choice, express: _Elements) -> str:
        at, *cases = self.keys[choice.key], *map(express.value, choice.cases)
        tests = [
            f"{at} < {bound.text} ? {case} : " for bound, case in zip(choice.bounds, cases, strict=False)
        ]
        return f"{''.join(tests)}{cases[-1]}"

    def _list_needed(self, root: str) -> list[Expr]:
        """Steps that the root takes, each after what it is made of."""
        ordered: dict[str, Expr] = {}

        def visit(name: str) -> None:
            if name not in ordered:
                for arg in self.mapping.steps[name].args:
                    visit(arg)
                ordered[name] = self.mapping.steps[name]

        visit(root)
        return list(ordered.values())

    def _find_paths(self) -> dict[str, list[Path]]:
        """Each load with the sets of cases under which the output takes it."""
        paths: dict[str, list[Path]] = {name: [] for name in self.mapping.loads}
        visited: set[tuple[str, Path]] = set()

        def visit(name: str, path: Path) -> None:
            if (name, path) in visited:
                return
            visited.add((name, path))
            if len(visited) > MOST_PATHS * (1 + len(self.mapping.steps)):
                raise Unsupported("too many cases")
            if name in paths:
                paths[name].append(path)
            choice = self.mapping.choices.get(name)
            if choice is None:
                for arg in self.mapping.steps[name].args:
                    visit(arg, path)
                return
            at, chosen = self.keys[choice.key], dict(path)
            for number, case in enumerate(choice.cases):
                if chosen.get(at, number) == number:
                    visit(case, path | {(at, number)})

        visit(self.mapping.root, frozenset())
        return paths

    def _condition(self, paths: Sequence[Path]) -> str:
        """Tell, as C++, whether one of these sets of cases is taken; "": always."""
        weakest = [p for p in dict.fromkeys(paths) if not any(q < p for q in paths)]
        if frozenset() in weakest:
            return ""
        if len(weakest) > MOST_PATHS:
            raise Unsupported("too many cases")
        return f"({' || '.join(' && '.join(map(self._is_case, sorted(p))) for p in weakest)})"

    def _is_case(self, case: tuple[str, int]) -> str:
        at, number = case
        bounds = next(bounds for (_, bounds), name in self.keys.items() if name == at)
        tests = [f"{at} >= {bounds[number - 1].text}"] if number > 0 else []
        tests += [f"{at} < {bounds[number].text}"] if number < len(bounds) else []
        return " && ".join(tests)


class _Elements(Express):
    """Steps of one element `v` of the packs numbered `u`."""

    def __init__(self, steps: Sequence[Expr], w: Writer) -> None:
        super().__init__(Program((), (), tuple(steps), ()), Addresses(), w)

    def text(self, step: Expr) -> str:
        if step.operand is not None:
            return KINDS[step.kind].format(f"{step.name}_pack[u].at[v]")
        return self._fill(step, self._scalar_arg)

    def value(self, name: str) -> str:
        """A step, or the constant that it is."""
        return self._scalar_arg(name)

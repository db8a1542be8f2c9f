"""What a thread of a reduction does with one pack: copies it to shared memory, adds it to the states.

In: where it is, or which reductions there are. Out: C++.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....codegen.cuda.lanes import Lanes
from ....codegen.program import Expr
from ....codegen.templates import render
from ....codegen.writer import Writer


def write_copies(w: Writer, hinted: bool = False) -> None:
    """`copy_pack`, to shared memory. `hinted`: its last argument says what only passes the L2 cache."""
    copy, flag = ("copy_hinted", "passing") if hinted else ("copy_async", "there")
    for line in render("reduce/cuda/copy_pack_async.cuh", copy=copy, flag=flag).splitlines():
        w.line(line)


INDEXED = ("argmax",)  # reductions that have to know where an element is


def add(w: Writer, lanes: Lanes, reductions: Sequence[Expr]) -> None:
    """The pack numbered `u` into the states of the reductions."""
    begin(w, reductions, "V")
    gather(w, lanes, reductions, "v")
    close(w, reductions, "index")


def begin(w: Writer, reductions: Sequence[Expr], count: str) -> None:
    """Room for what is added: `count` elements."""
    for name in _sources(reductions):
        w.line(f"float {name}_lanes[{count}];")


def gather(w: Writer, lanes: Lanes, reductions: Sequence[Expr], place: str) -> None:
    """The elements of the pack numbered `u`, lane v at `place`."""
    sources = _sources(reductions)
    w.line("#pragma unroll")
    with w.block("for (int v = 0; v < V; v++)"):
        lanes.element(sources)
        for name in sources:
            w.line(f"{name}_lanes[{place}] = {lanes.value(name)};")


def close(w: Writer, reductions: Sequence[Expr], first: str) -> None:
    """`first`: the index of the first element, for those that have to know it."""
    for step in reductions:
        w.line(f"{step.name}_state.add({step.args[0]}_lanes, {first});")


def _sources(reductions: Sequence[Expr]) -> list[str]:
    return list(dict.fromkeys(s.args[0] for s in reductions))

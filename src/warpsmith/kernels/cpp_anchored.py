"""The C++ kernel of an anchored family: chains before and after as functions, the family's loops between.

`body` is C++ inside `unit`, which calls `epilogue(acc, at, length)` for what it made and, for each value
that it reads by `prologues`, `prologue0(to, at, length)` …; see `codegen.fusion.op_chain`. NT is always defined (0 where it is
no tunable); where it is one, each thread's work ends with `if (NT) ws::fence();`.
"""

from __future__ import annotations

from ..codegen.cpp_source import Body
from ..codegen.fusion.op_chain import epilogue, write_chain
from ..codegen.program import Unsupported
from ..codegen.writer import Writer
from ..records import Graph, Region, Unit
from .anchored import Anchor, AnchoredFamily
from .family import Technique, unit_around

NO_STREAMING = """\
#ifndef NT
#define NT 0
#endif
"""


class CppAnchored(AnchoredFamily):
    """A subclass has `techniques` and `body`; constants and functions in `helpers`."""

    def helpers(self, anchor: Anchor, technique: Technique) -> str:
        """C++ that goes between task.h and `unit`: constants and functions of the body."""
        return ""

    def body(self, w: Writer, anchor: Anchor, technique: Technique) -> str:
        """Write the loops. Returns the workspace's bytes as a C++ expression of task.h's constants, or ""."""
        raise NotImplementedError

    def write(self, graph: Graph, region: Region, technique: Technique) -> Unit:
        """Raises Unsupported."""
        anchor = self.anchor(graph, region)
        if anchor is None:
            raise Unsupported(f"not a region of the family {self.name}")
        w, axis = Writer(), self.run_axis(graph, anchor.node)
        prologues = {f"prologue{i}": chain for i, chain in enumerate(self.chains_before(anchor))}
        for name, chain in prologues.items():
            write_chain(w, chain, name, axis)
        write_chain(w, epilogue(graph, region, anchor.value, anchor.after), "epilogue", axis)
        start = len(w.lines)
        workspace = self.body(w, anchor, technique)
        body = "\n".join(w.lines[start:])
        w.lines[start:start] = [f"(void){name};" for name in prologues if f"{name}(" not in body]
        helpers = self.helpers(anchor, technique)
        if any(t.name == "NT" for t in technique.tunables) and "ws::fence()" not in w.text() + helpers:
            raise ValueError(f"{self.name}: each thread's work must end with `if (NT) ws::fence();`")
        return unit_around(Body(w, workspace, before=NO_STREAMING + helpers), region, technique, self.name)

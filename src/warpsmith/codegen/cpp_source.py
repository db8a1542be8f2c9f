"""The whole file of a unit: front matter, tunables' defaults, workspace, includes, helpers, code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..records import Tunable
from ..targets.front_matter import FrontMatter, render
from .writer import Writer


@dataclass(frozen=True)
class Body:
    """What is written of a unit's file. `above` goes before the includes, `before` between them and `unit`."""

    w: Writer  # the lines of `unit`
    workspace: str = ""  # bytes, as C++; "": none
    above: str = ""
    before: str = ""


def unit_file(body: Body, matter: FrontMatter, why: str, operands: Sequence[str]) -> str:
    """C++ text that includes task.h and defines `unit`, whose parameters are `operands`: in0, in1 …, out0 …"""
    parameters = "".join(f"{'const ' if o.startswith('in') else ''}{o}_t* {o}, " for o in operands)
    parts = [
        render(matter).rstrip("\n"), f"// {why}", defaults_of(matter.tunables), body.above,
        f"#define WORKSPACE_BYTES ({body.workspace})" if body.workspace else "",
        '#include "task.h"', '#include "warpsmith_simd.h"', "",
        body.w.prelude(), body.before, f"static void unit({parameters}void* workspace, void* stream) {{",
        "  (void)stream;" if body.workspace else "  (void)workspace, (void)stream;",
        indent_lines(body.w.text()) + "}",
    ]  # fmt: skip
    return "\n".join(p for p in parts if p) + "\n"


def defaults_of(tunables: tuple[Tunable, ...]) -> str:
    return "\n".join(f"#ifndef {t.name}\n#define {t.name} {t.value}\n#endif" for t in tunables)


def indent_lines(text: str) -> str:
    return "".join(
        f"  {line}\n" if line and not line.startswith("#") else f"{line}\n" for line in text.splitlines()
    )

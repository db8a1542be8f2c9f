"""Mistakes that authors of kernels make, each as a change of a correct source, and what a judge said of them.

In: the source of a unit as the expert writes it. Out: the same with one mistake in it; and what was recorded of that mistake, as a
Result for whatever candidate it is in. `author_recorder.py` records: a compiler and the judge say what is wrong, nobody makes it up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from warpsmith.records import Build, Candidate, Check, Diagnostic, Record, Result, Status, Unit, Verdict

SIMD = '#include "warpsmith_simd.h"\n'


@dataclass(frozen=True)
class Mistake:
    """`changes`: regular expressions and what takes their place. What guards against it where an author is told it is
    `advice`, phrases of knowledge pages, or `code`, which right sources have and the repair brings in.
    """

    name: str
    changes: tuple[tuple[str, str], ...]
    advice: tuple[str, ...]
    code: str
    everywhere: bool = False  # not only at the first place

    def made(self, source: str) -> str:
        """The source with the mistake; unchanged where it cannot be made."""
        for right, wrong in self.changes:
            source = re.sub(right, wrong, source, count=0 if self.everywhere else 1)
        return source


MISTAKES: tuple[Mistake, ...] = (
    Mistake(
        "header left out", ((re.escape(SIMD), ""),),
        ('#include "warpsmith_simd.h"` after', '#include "task.h"\n#include "warpsmith_simd.h"'), SIMD.strip(),
    ),
    Mistake(
        "misspelt name of the ABI", ((r"\bin0_stride\b", "in_stride0"),), ("Names of the ABI are `in0_",), "in0_stride"
    ),
    Mistake(
        "outputs before inputs",
        ((r"static void unit\(((?:const in\d+_t\* in\d+, )+)((?:out\d+_t\* out\d+, )+)", r"static void unit(\2\1"),),
        ("all inputs, then all outputs", "all inputs before all outputs"), "static void unit(const in0_t",
    ),
    Mistake("semicolon left out", ((r"\(void\)stream;", "(void)stream"),), ("**expected ';'**",), "(void)stream;"),
    Mistake(
        "container of the standard library", ((re.escape(SIMD), SIMD + "#include <vector>\n"),),
        ("no C++ containers", "`std::vector`, `std::thread`"),
        "-#include <vector>",
    ),
    Mistake(
        "whole vectors at the end",
        (
            (r"n == VEC \? ws::load\(p \+ j\) : ws::load_n\(p \+ j, n\)", "ws::load(p + j)"),
            (r"else if \(n != VEC\) ws::store_n\(p \+ j, v, n\);\n  ", ""),
        ),
        ("Never read or write a whole vector there", "use partial loads", "whole vectors stored at a row's end"), "ws::load_n(p + j, n)",
    ),
    Mistake(
        "maximum begun at zero", ((r"-ws::infinity", "0.0f"),), ("maxima is -inf", "neutral element (0, -inf)"),
        "-ws::infinity", everywhere=True,
    ),
    Mistake(
        "remainder of the work left out",
        ((r"ws::parallel_ranges\(THREADS, ([^,]+), ", r"ws::parallel_ranges(THREADS, (\1) / 16 * 16, "),),
        ("others that do not divide by 16", "rows not divisible among threads"), "ws::parallel_ranges(THREADS, ",
    ),
    Mistake(
        "scratch shared by threads", ((r"\(float\*\)workspace \+ part \*", "(float*)workspace + 0 *"),),
        ("one part a thread",), "workspace + part *",
    ),
)  # fmt: skip
BY_NAME: Mapping[str, Mistake] = {m.name: m for m in MISTAKES}


class Failure(Record):
    """What was recorded of one mistake in a unit for a region of a task."""

    task: str
    nodes: tuple[str, ...]
    family: str
    technique: str
    mistake: str
    status: Status
    reason: str = ""
    diagnostics: tuple[Diagnostic, ...] = ()
    check: Check | None = None  # that failed

    def result(self, candidate: Candidate, unit: Unit, environment: str) -> Result:
        """As the judge would give it for a candidate with this unit."""
        build = Build(unit_key=unit.code_key, variant="main", ok=False, diagnostics=self.diagnostics)
        check = self.check.model_copy(update={"where": unit.region.id}) if self.check is not None else None
        return Result(
            candidate_id=candidate.id, content_key=candidate.content_key, task_id=candidate.task_id, target=candidate.target,
            status=self.status, reason=self.reason, builds=(build,) if self.diagnostics else (), environment=environment,
            verdict=Verdict(correct=False, checks=(check,)) if check is not None else None,
        )  # fmt: skip


class Failures:
    """All that were recorded. What was not recorded of a region is as of another of the same family, its own task's first."""

    def __init__(self, rows: Iterable[Failure]) -> None:
        self.rows = tuple(rows)

    @classmethod
    def read(cls, path: Path) -> Failures:
        lines = path.read_text(encoding="utf-8").splitlines()
        return cls(Failure.model_validate_json(line) for line in lines if line.endswith("}"))

    def find(self, task: str, unit: Unit, mistake: str) -> Failure | None:
        """None for a mistake that the judge let pass, or that nobody recorded."""
        mine = [f for f in self.rows if f.mistake == mistake and f.family == unit.family]
        near = sorted(
            mine,
            key=lambda f: (f.task != task, f.nodes != unit.region.nodes, f.technique != unit.technique),
        )
        return near[0] if near and near[0].status != "ok" else None

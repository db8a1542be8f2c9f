"""The rows of `kernelbench_admission.py` as a page: counts, the quarantine list, and beside it what others published.

Rows in, Markdown out. A mutant that changes no bit on any input tried (`equivalent`) is no wrong answer and is
not counted, on either side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from warpsmith.records import Environment

Row = dict[str, Any]

CLASSES: dict[str, Callable[[str], bool]] = {
    "zeros": lambda m: m == "zeros",
    "a constant": lambda m: m == "constant",
    "a stale replay": lambda m: m == "stale replay",
    "an input or parameter returned": lambda m: m.startswith("input "),
    "one op dropped": lambda m: m.startswith("dropped "),
    "bf16 arithmetic (7 bits)": lambda m: m == "7-bit mantissa",
    "TF32 arithmetic (10 bits)": lambda m: m == "10-bit mantissa",
}
# What was published about tasks that accept wrong answers: (source, tasks or criterion, how many).
PUBLISHED = (
    (
        "KernelBench issue #165 (github.com/ScalingIntelligence/KernelBench/issues/165): zeros pass at 1e-2, full shape, bf16",
        ("level1/23", "level1/37", "level1/53", "level1/39"),
    ),
    (
        "JAXBench (github.com/AI-Hypercomputer/accelerator-agents/pull/50): outputs small or constant by construction "
        "in its ports of GroupNorm → Mean and Max → Subtract → GELU",
        ("level2/23", "level2/80"),
    ),
)
CRITERIA = (
    "METR, *Measuring Automated Kernel Engineering* (February 2025), removed 45 of KernelBench's first 270 tasks: outputs within "
    "±0.01, uniform outputs, functions that do not depend on their input such as mean(softmax(x)). The sizes of many tasks were "
    "raised since (KernelBench v0.1), so its list does not carry over task by task.",
    "robust-kbench (arXiv 2509.14279) reports that leaving contaminated tasks out lowers the mean speedup of its kernels on "
    "KernelBench from 3.13 to 1.49.",
)


def markdown(rows: Sequence[Row], device: str, machine: Environment) -> str:
    rows = sorted(rows, key=lambda r: (r["task"].split("/")[0], _number(r)))
    tried = [r for r in rows if "refused" not in r]
    parts = [
        "# Admission of KernelBench's tasks\n",
        f"{len(rows)} tasks; {len(tried)} could be tried; {sum(bool(r['full']) for r in tried)} at their own shapes, the others at "
        f"shapes reduced by rule, which the rows of the JSON lines state. Device: {device} ({machine.cpu}), torch {machine.torch}.\n",
        "A mutant is a wrong answer. *Admitted* means that every mutant is caught by the judge's oracle on some input family.\n",
        *_counts(rows),
        *_comparison(tried),
        *_list("Quarantined", [(r, "; ".join(r["reasons"])) for r in tried if not r["admitted"]]),
        *_list("Not tried", [(r, r["refused"]) for r in rows if "refused" in r]),
        *_published({_short(r): r for r in rows}),
    ]
    return "\n".join(parts) + "\n"


def counted(row: Row, tolerance: str = "") -> list[str]:
    """The wrong answers that pass on a task: by the judge, or within one of KernelBench's tolerances."""
    real = {m for m, rule in row["mutants"].items() if rule != "equivalent"}
    if not tolerance:
        return [m for m, rule in row["mutants"].items() if rule == "admitted"]
    within = ("1e-4",) if tolerance == "1e-4" else ("1e-4", "1e-2")
    return [m for m, passed in row["kernelbench"].items() if m in real and passed in within]


def _counts(rows: Sequence[Row]) -> list[str]:
    lines = [
        "| level | tasks | admitted | quarantined | not tried | median s a task |",
        "|---|---|---|---|---|---|",
    ]
    for level in sorted({r["task"].split("/")[0] for r in rows}):
        mine = [r for r in rows if r["task"].startswith(level)]
        tried = [r for r in mine if "refused" not in r]
        good, seconds = sum(r["admitted"] for r in tried), sorted(r["seconds"] for r in mine)
        lines.append(
            f"| {level} | {len(mine)} | {good} | {len(tried) - good} | {len(mine) - len(tried)} "
            f"| {seconds[len(seconds) // 2]:.1f} |"
        )
    return [*lines, ""]


def _comparison(tried: Sequence[Row]) -> list[str]:
    """In how many tasks some mutant of a class passes, by whom."""
    lines = [
        "## Tasks on which a wrong answer passes\n",
        "By KernelBench: `torch.allclose` on the task's own inputs, two trials, at the same shapes.\n",
        "| wrong answer | tasks that have it | this judge | KernelBench, 1e-4 | KernelBench, 1e-2 |",
        "|---|---|---|---|---|",
    ]
    for name, belongs in [*CLASSES.items(), ("**any of these**", lambda m: True)]:
        having = [
            r for r in tried if any(belongs(m) for m, rule in r["mutants"].items() if rule != "equivalent")
        ]
        passes = [sum(any(map(belongs, counted(r, t))) for r in having) for t in ("", "1e-4", "1e-2")]
        lines.append(f"| {name} | {len(having)} | {' | '.join(map(str, passes))} |")
    zeros = [_short(r) for r in tried if "zeros" in counted(r, "1e-4")]
    return [*lines, "", f"Zeros pass at KernelBench's 1e-4 on: {', '.join(zeros) or 'none'}.\n"]


def _list(title: str, rows: Iterable[tuple[Row, str]]) -> list[str]:
    lines = [f"- `{row['task']}`: {reason}" for row, reason in rows]
    return [f"## {title}\n", *(lines or ["None."]), ""]


def _published(rows: dict[str, Row]) -> list[str]:
    lines = ["## Beside what others published\n"]
    for source, names in PUBLISHED:
        lines += [f"- {source}:", *(f"  - {name}: {_verdict(rows.get(name))}" for name in names)]
    return [*lines, *(f"- {text}" for text in CRITERIA)]


def _verdict(row: Row | None) -> str:
    if row is None or "refused" in row:
        return "not tried"
    ours = "admitted" if row["admitted"] else "quarantined"
    zeros = row["kernelbench"].get("zeros", "") or "at neither tolerance"
    return f"{ours} here; zeros pass KernelBench's check: {zeros}" + (
        "" if row["full"] else " (reduced shape)"
    )


def _short(row: Row) -> str:
    """level1/23 of level1/23_Softmax."""
    level, _, rest = row["task"].partition("/")
    return f"{level}/{rest.split('_')[0]}"


def _number(row: Row) -> int:
    digits = _short(row).partition("/")[2]
    return int(digits) if digits.isdigit() else 0

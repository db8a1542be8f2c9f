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
# Levels 1-3 of KernelBench's first 270 tasks that METR removed: those that github.com/METR/KernelBenchFiltered leaves out,
# read from the folders of its copy github.com/pavanyellow/KernelBenchFiltered at 9507be4 (2025-02-11).
METR = {
    "level1": (8, 12, 23, 37, 39, 50, 77, 90, 95, 97),
    "level2": (9, 13, 23, 27, 36, 38, 41, 44, 45, 49, 58, 66, 77, 80, 83, 84, 89, 91, 93, 96),
    "level3": (3, 5, 7, 11, 12, 18, 28, 32, 34, 35, 45, 46, 47),
}
# Of these, the ones that had another name then (KernelBench at 3073bc1), and with it mostly another computation.
THEN = {
    "level1/50": "Product_reduction_over_a_dimension", "level1/97": "CosineSimilarityLoss",
    "level2/27": "Conv3d_HardSwish_ReLU_Softmax_Mean", "level2/41": "Gemm_BatchNorm_GELU_GroupNorm_Mean_ReLU",
    "level2/45": "Gemm_Sigmoid_Sum_LogSumExp", "level2/58": "ConvTranspose3d_LogSumExp_HardSwish_Subtract_Clamp_Max",
    "level2/66": "Matmul_Dropout_Mean_Softmax", "level3/35": "LTSM",
}  # fmt: skip
METR_TEXT = (
    "METR, *Measuring Automated Kernel Engineering* (metr.org, 2025-02-14), removed 45 of KernelBench's first 270 tasks, by its own count: outputs within "
    "±0.01, uniform outputs, functions that do not depend on their input such as mean(softmax(x)). The {removed} below are the ones of levels 1–3 that "
    "its selection, github.com/METR/KernelBenchFiltered, leaves out. It judged other code: each of these files has changed in KernelBench since "
    "(v0.1 raised the sizes and replaced tasks; 3073bc1 beside 423217d), and {renamed} have another name. So disagreement is no error of either list.\n"
)
ROBUST = (
    "robust-kbench (arXiv 2509.14279) reports that leaving contaminated tasks out lowers the mean speedup of its kernels on "
    "KernelBench from 3.13 to 1.49."
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
        *_metr({_short(r): r for r in rows}),
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


def _metr(rows: dict[str, Row]) -> list[str]:
    """METR's list beside this one: how often they agree, and each task of theirs."""
    removed = [f"{level}/{number}" for level, numbers in METR.items() for number in numbers]
    lines = [
        "## Beside METR's list\n",
        METR_TEXT.format(removed=len(removed), renamed=len(THEN)),
        "| levels 1–3 | METR removed | METR kept |",
        "|---|---|---|",
    ]
    found = {name: r for name, r in rows.items() if name.partition("/")[0] in METR}
    kinds: dict[str, Callable[[Row], bool]] = {
        "quarantined here": lambda r: not r.get("admitted", True),
        "admitted here": lambda r: r.get("admitted", False),
        "admitted here, but some wrong answer passes KernelBench's 1e-4": lambda r: (
            r.get("admitted", False) and bool(counted(r, "1e-4"))
        ),
        "zeros or a constant pass KernelBench's 1e-4": lambda r: _blind(r, "1e-4"),
        "zeros or a constant pass KernelBench's 1e-2": lambda r: _blind(r, "1e-2"),
        "not tried here": lambda r: "refused" in r,
    }
    for text, belongs in kinds.items():
        names = [name for name, r in found.items() if belongs(r)]
        inside = sum(name in removed for name in names)
        lines.append(f"| {text} | {inside} | {len(names) - inside} |")
    absent = sum(name not in found for name in removed)
    more = [n for n, r in found.items() if not r.get("admitted", True) and n not in removed]
    lines += [
        f"\nQuarantined here and kept by METR: {', '.join(more) or 'none'}.",
        *([f"{absent} of METR's tasks are not among these rows."] if absent else []),
        "\n| METR removed | here | zeros pass KernelBench's check | a constant passes | why here | its name then |",
        "|---|---|---|---|---|---|",
    ]
    return [*lines, *(_metr_row(name, rows.get(name)) for name in removed), ""]


def _metr_row(name: str, row: Row | None) -> str:
    then = THEN.get(name, "the same")
    if row is None or "refused" in row:
        why = row["refused"].replace("|", "/").replace("\n", " ") if row else "not among the rows"
        return f"| {name} | not tried | – | – | {why} | {then} |"
    passes = [row["kernelbench"].get(mutant) or "no" for mutant in ("zeros", "constant")]
    here = "admitted" if row["admitted"] else "quarantined"
    return f"| {name} | {here} | {' | '.join(passes)} | {'; '.join(row['reasons'])} | {then} |"


def _blind(row: Row, tolerance: str) -> bool:
    """Whether KernelBench's check takes zeros or a constant for an answer."""
    return "refused" not in row and bool({"zeros", "constant"} & set(counted(row, tolerance)))


def _published(rows: dict[str, Row]) -> list[str]:
    lines = ["## Beside what others published\n"]
    for source, names in PUBLISHED:
        lines += [f"- {source}:", *(f"  - {name}: {_verdict(rows.get(name))}" for name in names)]
    return [*lines, f"- {ROBUST}"]


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

"""A comparison as a page: who wins surely, every task with both speedups and their ratio, what changed, what is missing."""

from __future__ import annotations

from ..progress import counted
from ..wording import baseline_name, interval
from .compare import Comparison, GeomeanRatio, TaskComparison
from .pages import Page
from .suite_charts import draw_comparison
from .tables import Grid

SURE = {"A": "A", "B": "B", "not sure": "not sure", "": "—"}


def comparison_page(found: Comparison) -> Page:
    return Page(
        title=f"A: {found.name_a}, B: {found.name_b}", lead=tuple(_lead(found)),
        grids=(_tasks(found.tasks), _build_changed_grid(found.tasks), *_alone(found)), rows=_rows(found.tasks),
        data=found.model_dump(mode="json"), charts=draw_comparison(found.tasks),
    )  # fmt: skip


def _lead(found: Comparison) -> list[str]:
    unsure = sum(t.faster == "not sure" for t in found.tasks)
    lead = [
        f"A is {found.name_a}, B is {found.name_b}; ratios are B over A, above 1 where B is faster.",
        f"{counted(len(found.tasks), 'task')} in both: B surely faster on {found.surely_b}, A on {found.surely_a}, "
        f"not sure on {unsure} (with the 95% interval of the ratio).",
        f"Geometric mean of B over A: {_geomean(found.verified)}, fastest verified ones; "
        f"{_geomean(found.deployed)}, what a user gets (no valid win counts 1.0).",
    ]
    return lead + [f"Note: {w}." for w in found.warnings]


def _geomean(mean: GeomeanRatio) -> str:
    ends = f" [{mean.low:.2f}, {mean.high:.2f}]" if mean.low is not None else ""
    return f"{mean.ratio:.2f}×{ends} over {counted(mean.tasks, 'task')}"


def _tasks(tasks: tuple[TaskComparison, ...]) -> Grid:
    lines = [
        (t.task, interval(t.a), interval(t.b), baseline_name(t.a.baseline), interval(t.ratio), SURE[t.faster])
        if t.a and t.b and t.ratio
        else (t.task, t.status_a, t.status_b, "—", "—", SURE[t.faster])
        for t in tasks
    ]
    columns = ("task", "A", "B", "both over", "B over A", "surely faster")
    strong = frozenset(i for i, t in enumerate(tasks) if t.faster in ("A", "B"))
    return Grid("Tasks in both", columns, tuple(lines), frozenset({1, 2, 4}), strong)


def _build_changed_grid(tasks: tuple[TaskComparison, ...]) -> Grid:
    lines = tuple((t.task, t.status_a, t.status_b) for t in tasks if t.changed)
    return Grid("Changed status", ("task", "A", "B"), lines)


def _alone(found: Comparison) -> list[Grid]:
    return [
        Grid(f"Only in {side}", ("task",), tuple((name,) for name in names))
        for side, names in (("A", found.only_a), ("B", found.only_b))
    ]


def _rows(tasks: tuple[TaskComparison, ...]) -> Grid:
    columns = (
        "task", "target", "status_a", "status_b", "baseline", "a", "a_low", "a_high", "b", "b_low", "b_high",
        "ratio", "ratio_low", "ratio_high", "surely_faster",
    )  # fmt: skip
    lines = []
    for t in tasks:
        ends = [
            f"{v:.6g}" if r is not None else ""
            for r in (t.a, t.b, t.ratio)
            for v in ((r.median, r.low, r.high) if r is not None else ("", "", ""))
        ]
        over = t.a.baseline if t.a else ""
        lines.append((t.task, t.target, t.status_a, t.status_b, over, *ends, t.faster))
    return Grid("Tasks", columns, tuple(lines), frozenset(range(5, 14)))

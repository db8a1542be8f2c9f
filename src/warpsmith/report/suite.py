"""A suite as a page: what was won over each baseline, every task with its interval, the metrics, losses with reasons.

In: the summaries of a suite's runs, as `run_suite` returns them. Out: a `Page` for any writer. The geometric mean
is over all tasks; one without a win counts as 1, because its user keeps the original. Quarantined tasks, on which a
wrong answer passes, count as not won and stand apart.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..pages.short_form import render_short
from ..progress import counted, duration
from ..records import Best, RunSummary
from ..records.intervals import is_unknown
from ..wording import baseline_name, interval, microseconds, share
from .pages import Page, write_json, write_markdown
from .scores import AtK, Mean, SuiteTask, Totals, find_verified_speedup, score, tasks_of
from .suite_charts import draw_suite, draw_suite_in_short
from .suite_rows import rows
from .tables import Grid

TEXTS = ("task", "status", "best baseline", "labels", "run")  # columns that line up on the left


def suite_page(summaries: Sequence[RunSummary], name: str = "", left: int = 0) -> Page:
    """`left`: runs that are still to come. In the data stand the totals and every summary."""
    totals, tasks = score(summaries), tasks_of(summaries)
    data = {"suite": name, "left": left, "totals": totals.model_dump(mode="json"),
            "tasks": [s.model_dump(mode="json") for s in summaries]}  # fmt: skip
    grids = (
        _tasks("Tasks", [t for t in tasks if t.shown.admitted]),
        _tasks("Quarantined: a wrong answer passes on them, so they count as not won",
               [t for t in tasks if not t.shown.admitted]),
        _speedups(totals.means), _fast(totals), _at_k(totals.at_k, tasks), _losses(tasks),
    )  # fmt: skip
    return Page(
        f"Suite {name}".strip(), tuple(_lead(summaries, totals, left)), grids, rows(tasks), data, draw_suite(tasks)
    )  # fmt: skip


class SuiteSummaries(list[RunSummary]):
    """The summaries of a suite's runs, which a notebook shows in short."""

    def _repr_html_(self) -> str:
        tasks = tasks_of(self)
        lead = _lead(self, score(self), left=0)
        return render_short("suite", counted(len(tasks), "task"), lead, draw_suite_in_short(tasks))


def suite_table(summaries: Sequence[RunSummary]) -> str:
    """The suite as markdown."""
    return write_markdown(suite_page(summaries))


def suite_json(summaries: Sequence[RunSummary]) -> str:
    """Totals and every run's summary, as JSON."""
    return write_json(suite_page(summaries))


def _lead(summaries: Sequence[RunSummary], totals: Totals, left: int) -> list[str]:
    machines = sorted({s.hardware for s in summaries if s.hardware})
    busy = f", {totals.too_busy} that the machine was too busy to tell" if totals.too_busy else ""
    lead = [
        f"{totals.wins} of {totals.tasks} tasks won, {totals.no_wins} without a win "
        f"({totals.quarantined} of them quarantined){busy}, {totals.failed} failed. "
        f"Geometric mean over all tasks: {totals.geomean_best:.2f}× the best baseline, "
        f"{totals.geomean_eager:.2f}× eager (no valid win counts 1.0).",
        f"Measured on {', '.join(machines) or 'an unnamed machine'}. "
        "Speedups are medians with 95% intervals.",
    ]
    if totals.kernel_rate is not None and totals.limit_share_median is not None:
        kinds = ", ".join(f"{n} {k}" for k, n in totals.kinds.items() if n)
        lead.append(
            f"Wins by kind: {kinds}; real-kernel rate {share(totals.kernel_rate)}. "
            f"Share of the speed of light, median of correct ones that are not algorithmic: "
            f"{share(totals.limit_share_median)}."
        )
    lead.append(
        f"{counted(totals.judged, 'candidate')} judged, {totals.correct} of them correct, in {duration(totals.seconds)}."
    )
    if totals.exchanges:
        cost = "price not known" if totals.usd is None else f"${totals.usd:.2f}"
        lead.append(
            f"Language models: {counted(totals.exchanges, 'exchange')}, {totals.tokens:,} tokens, {cost}"
            f"{cost_per_win(totals)}."
        )
    if totals.samples > 1:
        lead.append(
            f"{totals.samples} searches a task; its median one stands for it in every table but the one at k."
        )
    if left:
        lead.append(f"{counted(left, 'run')} still to come: the same command goes on.")
    return lead


def cost_per_win(totals: Totals) -> str:
    """Say what each verified win cost in tokens and dollars; empty where nothing was won."""
    wins = sum(totals.kinds.values())
    if not wins:
        return "; nothing verified came of it"
    paid = f", ${totals.usd / wins:.3f}" if totals.usd is not None else ""
    return f"; a verified win cost {totals.tokens // wins:,} tokens{paid}"


def _tasks(title: str, tasks: Sequence[SuiteTask]) -> Grid:
    several = any(len(t.runs) > 1 for t in tasks)
    lines = [_task(t, several) for t in tasks]
    columns = (
        "task", "status", *(("correct",) if several else ()), "vs best", "best baseline", "vs eager", "median",
        "of the limit", "labels", "judged", "time", "run",
    )  # fmt: skip
    numbers = {i for i, c in enumerate(columns) if c not in TEXTS}
    strong = frozenset(i for i, t in enumerate(tasks) if t.shown.status == "win")
    return Grid(title, columns, tuple(lines), frozenset(numbers), strong)


def _task(task: SuiteTask, several: bool) -> tuple[str, ...]:
    s, b = task.shown, task.shown.best
    correct = f"{sum(find_verified_speedup(r) is not None for r in task.runs)}/{len(task.runs)}"
    is_known = b is not None and not is_unknown(b.speedup)
    measured = (
        (interval(b.speedup), baseline_name(b.speedup.baseline), interval(b.speedup_eager),
         microseconds(b.median_us) if is_known else "—", share(b.limit_share) if is_known else "—", _labels(b))
        if b else ("—",) * 6
    )  # fmt: skip
    spent = str(sum(r.evaluations for r in task.runs)), f"{sum(r.seconds for r in task.runs):.0f} s"
    return (s.task, s.status, *((correct,) if several else ()), *measured, *spent, s.run_id)


def _labels(best: Best) -> str:
    """An algorithmic win with what is left of it over the rewritten reference."""
    over = best.speedup_rewritten
    suffix = f" ({interval(over)} {baseline_name(over.baseline)})" if over is not None else ""
    return ", ".join(f"{label}{suffix}" if label == "algorithmic" else label for label in best.labels)


def _speedups(means: Sequence[Mean]) -> Grid:
    lines = [
        (
            "best baseline" if m.over == "best" else baseline_name(m.over), m.among, str(m.tasks), f"{m.geomean:.2f}×",
            f"[{m.low:.2f}, {m.high:.2f}]" if m.low is not None else "—", f"{m.median:.2f}×",
        )
        for m in means
    ]  # fmt: skip
    columns = ("over", "among", "tasks", "geometric mean", "95% interval, over tasks", "median")
    return Grid(
        "Speedups (all tasks: one without a win counts 1)", columns, tuple(lines), frozenset({2, 3, 4, 5})
    )


def _fast(totals: Totals) -> Grid:
    lines: list[tuple[str, dict[str, float]]] = [
        ("best baseline", totals.fast_p_best), ("best baseline, surely", totals.sure_p_best),
        ("eager", totals.fast_p_eager), ("eager, surely", totals.sure_p_eager),
    ]  # fmt: skip
    rows = tuple((name, *(f"{v:.2f}" for v in values.values())) for name, values in lines)
    columns = ("against", *(f"p = {p}" for p in totals.fast_p_best))
    title = "fast_p: share of all tasks more than p times as fast (surely: with the whole interval)"
    return Grid(title, columns, rows, frozenset(range(1, len(columns))))


def _at_k(found: Sequence[AtK], tasks: Sequence[SuiteTask]) -> Grid:
    has_efficiency = any(a.efficiency_at_k is not None for a in found)
    lines = [
        (str(a.k), f"{a.pass_at_k:.2f}", f"{a.speedup_at_k:.2f}×",
         *((f"{a.efficiency_at_k:.2f}" if a.efficiency_at_k is not None else "—",) if has_efficiency else ()))
        for a in found
    ]  # fmt: skip
    columns = ("k", "pass@k", "speedup@k", *(("efficiency@k",) if has_efficiency else ()))
    per = "thread" if {t.target for t in tasks} == {"cpu"} else "device"
    title = "Of k searches a task, failures counting 0" + (
        f" (efficiency: speedup per {per})" if has_efficiency else ""
    )
    return Grid(title, columns, tuple(lines), frozenset(range(len(columns))))


def _losses(tasks: Sequence[SuiteTask]) -> Grid:
    lost = [t.shown for t in tasks if t.shown.status != "win"]
    lines = tuple(
        (s.task, s.status if s.admitted else "quarantined", _describe_best(s), _why(s)) for s in lost
    )
    return Grid("Losses and refusals", ("task", "status", "fastest verified", "why"), lines)


def _describe_best(summary: RunSummary) -> str:
    if summary.best is None:
        return ""
    return f"{interval(summary.best.speedup)} {baseline_name(summary.best.speedup.baseline)}"


def _why(summary: RunSummary) -> str:
    return "; ".join(t for t in (summary.reason, summary.fault) if t) or "no reason recorded"

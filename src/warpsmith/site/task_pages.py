"""The page of a task: the best by machine, attempts over time, baselines and limit, shapes, reference, attempts, runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..archive import Entry
from ..pages.charts import Point, choose_points, draw_attempts
from ..pages.highlighting import highlight_source, take_lines
from ..pages.safety import clip, make_file_id
from ..records import Task
from ..wording import baseline_name, hardware, label, microseconds, share
from .json_records import dump_run, dump_standing, dump_task
from .kernel_pages import Kernel
from .merging import MergedRun, TaskRecords
from .standing import Standing, find_machine, find_outcome, get_ratios
from .tables import Cell, Table, link_kernel, link_run, make_table, mark_outcome, show_ratio
from .writing import Writer

MAX_REFERENCE_BYTES = 60_000


def write_task(
    writer: Writer, records: TaskRecords, standings: list[Standing], kernels: list[Kernel]
) -> None:
    """Write the page, the JSON file and the reference's text."""
    task, file_id = records.task, make_file_id(records.task.id)
    source = f"api/tasks/{file_id}.json"
    text = task.source.text
    if text:
        writer.write_text(f"tasks/{file_id}.py.txt", text)
    reference, missing = take_lines(highlight_source(text, "python") if text else [], MAX_REFERENCE_BYTES)
    writer.write_json(source, _dump(records, standings, kernels))
    writer.write_page(
        f"tasks/{file_id}.html", "task.html", task=task, notes=_list_notes(records), reference=reference, missing=missing,
        standings=_tabulate_standings(standings), chart=_draw(records), baselines=_tabulate_baselines(records),
        shapes=_tabulate_shapes(task, source), attempts=_tabulate_attempts(records, source), runs=_tabulate_runs(records, source),
    )  # fmt: skip


@dataclass(frozen=True)
class BestCells:
    """The cells of what stands on a machine."""

    kernel: Cell
    outcome: Cell
    fastest: Cell  # over the fastest baseline, whose name is its note
    eager: Cell
    compiled: Cell  # over the fastest of the ways of torch.compile
    limit: Cell  # share


def describe_best(standing: Standing) -> BestCells:
    """Return the cells of what stands."""
    entry, nothing = standing.entry, Cell("", kind="n", sort="0")
    if entry is None:
        return BestCells(Cell(""), mark_outcome(standing.outcome), nothing, nothing, nothing, nothing)
    origin = "" if entry.verified_here else "imported"
    kernel = link_kernel(label(entry.candidate), entry.candidate.id, origin)
    timing, ratios = entry.result.timing, get_ratios(entry)
    if not ratios or timing is None:
        estimate = timing.estimate if timing is not None and entry.result.status == "screened" else None
        cell = show_ratio(estimate)
        note = f"estimate, {cell.note}" if estimate is not None else ""
        outcome = mark_outcome(standing.outcome, clip(standing.reason, 120))
        return BestCells(
            kernel, outcome, Cell(cell.text, kind="n", sort="0", note=note), nothing, nothing, nothing
        )
    compiled = min(
        (r for r in ratios if r.baseline.startswith("compile")), key=lambda r: r.median, default=None
    )
    return BestCells(
        kernel, mark_outcome(standing.outcome), show_ratio(entry.result.speedup), show_ratio(timing.ratio("eager"), name=False),
        show_ratio(compiled, name=compiled is not None and compiled.baseline != "compile"), show_share(timing.limit_share),
    )  # fmt: skip


def show_share(limit_share: float) -> Cell:
    """Show a share of the limit. Above 100% the kernel does less arithmetic than the reference, whose limit it is."""
    note = "less work than the reference" if limit_share > 1.0 else ""
    return Cell(share(limit_share) if limit_share else "", kind="n", sort=f"{limit_share:.4f}", note=note)


def _list_notes(records: TaskRecords) -> list[str]:
    if records.admitted:
        return []
    admissions = [
        m.run.admission for m in records.runs if m.run.admission is not None and not m.run.admission.admitted
    ]
    reasons = dict.fromkeys(reason for a in admissions for reason in a.reasons)
    return [
        f"The task is quarantined, so no speedup on it counts: {'; '.join(reasons) or 'a mutant passes on it'}."
    ]


def _tabulate_standings(standings: list[Standing]) -> Table:
    rows = []
    for s in standings:
        best = describe_best(s)
        rows.append(
            (
                Cell(s.machine, note=s.target),
                best.outcome,
                best.kernel,
                best.fastest,
                best.eager,
                best.compiled,
                best.limit,
                _count(s),
            )
        )
    columns = (
        "machine", "outcome", "kernel", "over the fastest baseline", "over eager", "over torch.compile", "of the limit", "judged",
    )  # fmt: skip
    return make_table("The kernel that stands on each machine", columns, rows, "api/leaderboard.json")


def _count(standing: Standing) -> Cell:
    return Cell(str(standing.kernels), kind="n", note=f"{standing.failed} failed" if standing.failed else "")


def _draw(records: TaskRecords) -> Any:
    points = [
        Point(
            i,
            label(e.candidate),
            e.result.status,
            e.result.speedup if get_ratios(e) else None,
            e.result.confirmed,
        )
        for i, e in enumerate(records.entries, 1)
    ]
    return draw_attempts(choose_points(points), len(points))


def _tabulate_baselines(records: TaskRecords) -> list[Table]:
    """Tabulate the baselines of the latest run on each machine that measured any."""
    latest: dict[tuple[str, str], MergedRun] = {}
    for merged in records.runs:
        if merged.run.baselines:
            latest.setdefault((hardware(merged.run.environment), merged.run.target), merged)
    tables = []
    for (machine, target), merged in sorted(latest.items()):
        rows: list[tuple[Cell | str, ...]] = []
        for b in merged.run.baselines:
            time = f"[{microseconds(b.low_us)}, {microseconds(b.high_us)}]"
            measured = (microseconds(b.median_us), time, share(b.limit_share) if b.limit_share else "")
            rows.append((baseline_name(b.name), *(measured if b.ok else ("not measured", b.reason, ""))))
        limit = merged.run.limit
        if limit is not None:
            peaks = f"{limit.bytes_per_second / 1e9:.1f} GB/s, {limit.flops_per_second / 1e9:.0f} GFLOP/s"
            rows.append(
                (
                    f"limit ({limit.bound}-bound)",
                    microseconds(limit.seconds * 1e6),
                    f"measured peaks: {peaks}",
                    "100%",
                )
            )
        columns = ("what", "median", "95% interval", "of the limit")
        tables.append(make_table(f"{machine}, {target}, run {merged.run.run_id}", columns, rows))
    return tables


def _tabulate_shapes(task: Task, source: str) -> Table:
    rows = []
    for variant in task.variants:
        inputs = [i for i in variant.graph.inputs if i.role == "input"]
        shapes = ", ".join(
            f"{i.target}: {i.spec.dtype} {'×'.join(map(str, i.spec.shape)) or 'scalar'}" for i in inputs[:12]
        )
        settings = ", ".join(f"{k}={v!r}" for k, v in variant.overrides.items())
        rows.append((variant.name, shapes, settings, str(len(variant.graph.nodes))))
    return make_table(
        "Shapes at which it is judged; the first counts for speed",
        ("name", "inputs", "constants", "nodes"),
        rows,
        source,
        40,
    )


def _tabulate_attempts(records: TaskRecords, source: str) -> Table:
    rows = []
    for e in reversed(records.entries):
        outcome = mark_outcome(find_outcome(e, records.admitted))
        kernel = link_kernel(label(e.candidate), e.candidate.id, "" if e.verified_here else "imported")
        speedup = e.result.speedup if get_ratios(e) else None
        rows.append(
            (
                kernel,
                outcome,
                show_ratio(speedup),
                find_machine(e, records),
                e.result.judged_at[:19],
                _find_detail(e),
            )
        )
    columns = ("kernel", "outcome", "over the fastest baseline", "machine", "judged", "reason")
    return make_table("Every result, newest first", columns, rows, source)


def _find_detail(entry: Entry) -> str:
    return f"{entry.result.status}: {entry.result.reason}" if entry.result.reason else ""


def _tabulate_runs(records: TaskRecords, source: str) -> Table:
    rows = []
    for merged in records.runs:
        run, summary = merged.run, merged.run.summary
        status = summary.status if summary is not None else "unfinished"
        best = show_ratio(summary.best.speedup if summary is not None and summary.best is not None else None)
        origin = "imported" if run.origin == "imported" else "local"
        rows.append(
            (
                link_run(run.run_id),
                status,
                best,
                str(len(merged.entries)),
                hardware(run.environment),
                run.target,
                run.started_at[:19],
                origin,
            )
        )
    columns = ("run", "status", "its claim", "results", "machine", "target", "started", "origin")
    return make_table("Runs, newest first", columns, rows, source)


def _dump(records: TaskRecords, standings: list[Standing], kernels: list[Kernel]) -> dict[str, Any]:
    results = [
        {
            "candidate": e.candidate.id,
            "result": e.result.id,
            "status": e.result.status,
            "judged_at": e.result.judged_at,
        }
        for e in records.entries
    ]
    return {
        "task": dump_task(records.task), "admitted": records.admitted, "standings": [dump_standing(s, records) for s in standings],
        "kernels": [{"id": k.candidate.id, "label": label(k.candidate), "outcome": k.outcome} for k in kernels],
        "results": results, "runs": [dump_run(m.run) for m in records.runs],
    }  # fmt: skip

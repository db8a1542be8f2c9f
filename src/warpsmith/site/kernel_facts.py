"""What a kernel's page says in sentences and short tables: notes, times, results, lineage, relatives, commands."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..archive import Entry
from ..records import Candidate, Ratio
from ..records.intervals import find_sure_share, is_unknown
from ..report.wording import baseline_name, interval, microseconds, share
from .charts import Markup, draw_times
from .merging import MergedRun, TaskRecords
from .neighbours import Relative
from .standing import find_machine
from .tables import Cell, Table, link_kernel, link_run, make_table, show_ratio

if TYPE_CHECKING:
    from .kernel_pages import Kernel


def list_kernel_notes(outcome: str, entry: Entry, records: TaskRecords) -> list[str]:
    """List what a reader must know before the numbers."""
    notes: list[str] = []
    result = entry.result
    if not records.admitted:
        notes.append("The task is quarantined: a wrong answer can pass on it, so no speedup counts.")
    if not entry.verified_here:
        notes.append(
            "This result was imported from another machine; the archive's own judges have not repeated it."
        )
    if outcome == "unconfirmed":
        notes.append("It was not measured again in fresh processes: the best of many noisy numbers.")
    if result.status == "screened":
        notes.append(
            "It was only screened: its units were timed alone, and the whole has an estimate. It has no verdict."
        )
    if result.timing is not None and result.timing.busy:
        notes.append(f"The machine was too busy for a claim: {result.timing.busy}")
    return [
        *notes,
        *([f"{result.status}: {result.reason}"] if result.reason and result.status != "screened" else []),
    ]


def describe_time(entry: Entry, records: TaskRecords) -> str:
    """Say in a sentence what was measured."""
    timing, machine = entry.result.timing, find_machine(entry, records)
    if timing is not None and timing.estimate is not None and entry.result.status == "screened":
        return f"Estimate, not measured: {interval(timing.estimate)} over {baseline_name(timing.estimate.baseline)} on {machine}."
    best = entry.result.speedup
    if timing is None or best is None or entry.result.status != "ok":
        return f"No time counts: {entry.result.status} on {machine}."
    has_share = timing.limit_share and not is_unknown(best)
    limit = f" At least {share(find_sure_share(timing))} of the machine's limit." if has_share else ""
    repeated = "measured again in fresh processes" if entry.result.confirmed else "not measured a second time"
    return f"{interval(best)} over {baseline_name(best.baseline)} on {machine}, {repeated}.{limit}"


def tabulate_times(entry: Entry, source: str, most: int) -> Table:
    timing = entry.result.timing
    if timing is None or entry.result.status != "ok":
        return make_table("Times", (), [])
    times = (
        f"{microseconds(timing.median_us)} [{microseconds(timing.low_us)}, {microseconds(timing.high_us)}]"
    )
    rows: list[tuple[Any, ...]] = [
        ("this kernel", Cell(times, kind="n")),
        ("cache", Cell(timing.cache, kind="n")),
        ("samples", Cell(str(timing.samples), kind="n")),
    ]
    rows += [(f"speedup over {baseline_name(r.baseline)}", show_ratio(r, name=False)) for r in timing.ratios]
    rows += [("share of the limit", Cell(share(timing.limit_share), kind="n"))] if timing.limit_share else []
    rows += [
        (f"unit {region} alone", Cell(microseconds(us), kind="n")) for region, us in timing.unit_us.items()
    ]
    return make_table("Times with their 95% intervals", ("what", "value"), rows, source, most)


def tabulate_results(entries: Sequence[Entry], records: TaskRecords, source: str, most: int) -> Table:
    rows = [
        (
            e.result.status, "confirmation" if e.result.confirmed else e.kind, show_ratio(_get_speedup(e)), find_machine(e, records),
            "imported" if not e.verified_here else "local", e.result.judged_at[:19], link_run(e.run_id) if e.run_id else "", e.result.reason,
        )
        for e in entries
    ]  # fmt: skip
    columns = ("status", "kind", "over the fastest baseline", "machine", "origin", "judged", "run", "reason")
    return make_table("All results, oldest first", columns, rows, source, most)


def _get_speedup(entry: Entry) -> Ratio | None:
    return entry.result.speedup if entry.result.status == "ok" else None


def describe_lineage(candidate: Candidate) -> str:
    lineage = candidate.lineage
    words = [
        f"Made by {lineage.operator}",
        f"by {lineage.agent}" if lineage.agent else "",
        f"({lineage.model})",
    ]
    return (
        " ".join(w for w in words if w)
        + f" in round {lineage.round}."
        + (f" {lineage.reason}" if lineage.reason else "")
    )


def tabulate_relatives(
    candidate: Candidate, titles: Mapping[str, str], records: TaskRecords, source: str, most: int
) -> Table:
    children = dict.fromkeys(
        e.candidate.id for e in records.entries if candidate.id in e.candidate.lineage.parents
    )
    pairs = [("parent", p) for p in candidate.lineage.parents] + [("child", c) for c in children]
    rows = [(kind, link_kernel(titles[key], key, key) if key in titles else key) for kind, key in pairs]
    return make_table("Parents and children", ("what", "kernel"), rows, source, most)


def tabulate_similar(relatives: Sequence[Relative]) -> Table:
    """Tabulate kernels of any task that are like this one."""
    rows = [
        (
            link_kernel(r.dot.label, r.dot.id, r.dot.family), r.dot.task, r.why, r.dot.outcome,
            Cell(f"at least {r.dot.low:.2f}×" if r.dot.low > 0 else "", kind="n", sort=f"{r.dot.low:.4f}"),
        )
        for r in relatives
    ]  # fmt: skip
    columns = ("kernel", "task", "why", "outcome", "over its fastest baseline")
    return make_table("Related kernels", columns, rows, "api/map.json")


def draw_kernel_times(entry: Entry, run: MergedRun | None) -> Markup:
    """Draw the kernel's time beside the baselines that its run measured."""
    timing = entry.result.timing
    if timing is None or entry.result.status != "ok":
        return Markup("")
    rows = [("this kernel", (timing.median_us, timing.low_us, timing.high_us))]
    rows += [
        (baseline_name(b.name), (b.median_us, b.low_us, b.high_us))
        for b in (run.run.baselines if run is not None else ())
        if b.ok
    ][:8]
    limit_us = timing.limit_share * timing.median_us
    return draw_times([name for name, _ in rows], [time for _, time in rows], limit_us)


def find_run(kernel: Kernel, records: TaskRecords) -> MergedRun | None:
    """Return the run that judged the result that is shown."""
    same = [m for m in records.runs if m.run.run_id == kernel.shown.run_id]
    return same[0] if same else next((m for m in records.runs if m.run.run_id in kernel.runs), None)


def list_commands(kernel: Kernel, files: Mapping[str, str]) -> list[str]:
    """List commands that repeat the judgement from the downloads, and those for whoever has the archive."""
    words: list[list[str]] = []
    if "KernelBench file" in files:
        reference = f"{kernel.candidate.task_id}.py"
        words.append(
            ["warpsmith", "judge", files["KernelBench file"].removesuffix(".txt"), "--task", reference]
        )
    run_id = kernel.shown.run_id or next(iter(kernel.runs), "")
    words += (
        [["warpsmith", "archive", "show", run_id], ["warpsmith", "report", run_id]]
        if run_id
        else [["warpsmith", "archive", "list"]]
    )
    if run_id and kernel.outcome == "win" and kernel.shown.verified_here:
        words += [
            ["warpsmith", "export", run_id, "--as", form] for form in ("kernelbench", "package", "source")
        ]
    return [shlex.join(w) for w in words]

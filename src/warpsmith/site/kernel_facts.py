"""What a kernel's page says in sentences and short tables: notes, times, results, lineage, relatives, commands."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from markupsafe import Markup

from ..archive import Entry
from ..pages.bars import Bar, draw_bars
from ..pages.roofline_chart import Rate, draw_roofline
from ..records import BaselineTiming, Candidate, Ratio, Timing
from ..records.intervals import find_sure_share, is_unknown
from ..wording import baseline_name, interval, microseconds, share
from .merging import MergedRun, TaskRecords
from .neighbours import Relative
from .standing import find_machine
from .tables import Cell, Table, link_kernel, link_run, make_table, show_ratio

MAX_BASELINES = 8  # of a chart

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
        f"({' + '.join(lineage.credit)})",
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
    """Draw the kernel's time beside those of the baselines that its run measured."""
    timing = entry.result.timing
    if timing is None or entry.result.status != "ok" or not _is_time(timing):
        return Markup("")
    bars = [_make_bar("this kernel", timing, "good")]
    baselines = run.run.baselines if run is not None else ()
    bars += [_make_bar(baseline_name(b.name), b, "base") for b in baselines if b.ok and _is_time(b)][
        :MAX_BASELINES
    ]
    limit_us = timing.limit_share * timing.median_us
    mark = limit_us if 0 < limit_us < math.inf else None
    return draw_bars(bars, "Times, medians with 95% intervals", mark, f"the limit, {microseconds(limit_us)}")


def _make_bar(name: str, time: Timing | BaselineTiming, kind: Literal["good", "base"]) -> Bar:
    text = f"{microseconds(time.median_us)} [{microseconds(time.low_us)}, {microseconds(time.high_us)}]"
    return Bar(name, time.median_us, text, kind, time.low_us, time.high_us)


def _is_time(time: Timing | BaselineTiming) -> bool:
    return all(0 <= us < math.inf for us in (time.low_us, time.high_us)) and 0 < time.median_us < math.inf


def draw_kernel_roofline(entry: Entry, run: MergedRun | None) -> Markup:
    """Draw the kernel and the baselines under the measured peaks, at the arithmetic of the task over its least traffic."""
    timing = entry.result.timing
    limit = (timing.limit if timing is not None else None) or (run.run.limit if run is not None else None)
    if (
        timing is None
        or entry.result.status != "ok"
        or limit is None
        or not (_is_time(timing) and limit.least_bytes > 0)
    ):
        return Markup("")
    baselines = [b for b in (run.run.baselines if run is not None else ()) if b.ok and _is_time(b)][
        :MAX_BASELINES
    ]
    rates = [Rate(baseline_name(b.name), limit.flops / b.median_us * 1e6, "base") for b in baselines]
    rates.append(Rate("this kernel", limit.flops / timing.median_us * 1e6, "good"))
    return draw_roofline(
        rates, limit.flops / limit.least_bytes, limit.bytes_per_second, limit.flops_per_second
    )


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

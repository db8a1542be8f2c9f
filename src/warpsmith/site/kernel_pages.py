"""The page of a kernel: verdict and checks, times, lineage, difference from the parent, source, commands. It stays below 150 kB."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..archive import Entry
from ..pages.bars import draw_ratios
from ..pages.highlighting import compare_sources, highlight_source, join_sources, take_lines
from ..pages.safety import make_file_id
from ..progress import counted
from ..records import Candidate, Ratio, Unit
from ..records.intervals import find_sure_share, is_unknown
from ..report.parts import checks
from ..wording import baseline_name, interval, label, microseconds, share
from .json_records import dump_candidate, dump_entry
from .merging import MergedArchives, TaskRecords
from .standing import find_machine, find_outcome, find_standing, get_ratios, rank
from .tables import Table, link_kernel, link_run, make_table, show_ratio
from .writing import Writer

MAX_PAGE_BYTES = 150_000
SUFFIXES = {"c++": "cpp", "cuda": "cu", "aten": "aten"}


@dataclass(frozen=True)
class Room:
    """The most that parts of a page may take."""

    source_bytes: int
    diff_bytes: int
    rows: int
    units: int


ROOMS = (Room(60_000, 25_000, 60, 40), Room(20_000, 8_000, 20, 20), Room(4_000, 2_000, 5, 5))


@dataclass(frozen=True)
class Kernel:
    """A candidate with all results of its content, oldest first, and the runs that judged it."""

    candidate: Candidate
    entries: tuple[Entry, ...]
    shown: Entry  # the result that the page is about
    outcome: str
    runs: tuple[str, ...]  # ids


def list_kernels(records: TaskRecords) -> list[Kernel]:
    """List the candidates of a task, in the order in which they were first judged. Candidates of one content share results."""
    contents: dict[str, list[Entry]] = {}
    for entry in records.entries:
        contents.setdefault(entry.candidate.content_key, []).append(entry)
    runs: dict[str, dict[str, None]] = {}
    for merged in records.runs:
        for entry in merged.entries:
            runs.setdefault(entry.candidate.id, {})[merged.run.run_id] = None
    candidates = {e.candidate.id: e.candidate for e in records.entries}
    return [
        _make_kernel(records, c, contents[c.content_key], tuple(runs.get(key, ())))
        for key, c in candidates.items()
    ]


def _make_kernel(
    records: TaskRecords, candidate: Candidate, entries: list[Entry], runs: tuple[str, ...]
) -> Kernel:
    machines: dict[str, list[Entry]] = {}
    for entry in entries:
        machines.setdefault(find_machine(entry, records), []).append(entry)
    standing = [s for group in machines.values() if (s := find_standing(group)) is not None]
    shown = max(standing, key=rank)
    return Kernel(candidate, tuple(entries), shown, find_outcome(shown, records.admitted), runs)


def write_kernel(
    writer: Writer, kernel: Kernel, records: TaskRecords, titles: Mapping[str, str], archives: MergedArchives
) -> None:
    """Write the page, the JSON file and the downloads. `titles`: candidates of this task that have a page → their labels."""
    candidate, file_id = kernel.candidate, make_file_id(kernel.candidate.id)
    for number, unit in enumerate(candidate.units, 1):
        if unit.text:
            writer.write_text(f"kernels/{_name_download(file_id, number, unit)}", unit.text)
    writer.write_json(
        f"api/kernels/{file_id}.json",
        {
            "candidate": dump_candidate(candidate),
            "outcome": kernel.outcome,
            "results": [dump_entry(e) for e in kernel.entries],
        },
    )
    parent = _find_parent(candidate, titles, records, archives)
    path = f"kernels/{file_id}.html"
    for room in ROOMS:
        writer.write_page(path, "kernel.html", **_describe(kernel, records, titles, parent, room))
        if (writer.folder / path).stat().st_size <= MAX_PAGE_BYTES:
            break
        writer.pages -= room is not ROOMS[-1]  # it is written once more


def _describe(
    kernel: Kernel, records: TaskRecords, titles: Mapping[str, str], parent: Candidate | None, room: Room
) -> dict[str, Any]:
    candidate, entry, source = (
        kernel.candidate,
        kernel.shown,
        f"api/kernels/{make_file_id(kernel.candidate.id)}.json",
    )
    diff, diff_missing = take_lines(
        _compare(parent, candidate) if parent is not None else [], room.diff_bytes
    )
    verdict, idea = entry.result.verdict, entry.hypothesis
    failed = verdict.failed if verdict is not None else None
    return {
        "task": records.task, "candidate": candidate, "label": label(candidate), "outcome": kernel.outcome,
        "notes": _list_notes(kernel, records), "headline": _describe_time(entry, records), "chart": draw_ratios(get_ratios(entry)[:12]),
        "times": _tabulate_times(entry, source, room), "results": _tabulate_results(kernel, records, source, room),
        "stages": make_table("Seconds by stage", ("stage", "seconds"), [(k, f"{v:.2f}") for k, v in entry.result.seconds.items()], source, 20),
        "labels": verdict.labels[:20] if verdict is not None else (),
        "checks": make_table(
            "Checks of the result above", ("inputs", "shapes", "passed", "worst error, of the budget"),
            [(c.family, c.variant, f"{c.passed} of {c.checks}", f"{100 * c.worst_error:.1f}%") for c in checks(entry)], source, room.rows,
        ),
        "failure": f"{failed.rule} on {failed.family} inputs ({failed.variant}): {failed.detail}" if failed is not None else "",
        "lineage": _describe_lineage(candidate), "evidence": idea.evidence[:10] if idea is not None else (),
        "relatives": _tabulate_relatives(candidate, titles, records, source, room), "diff": diff, "diff_missing": diff_missing,
        "units": _list_units(candidate, room), "further": max(0, len(candidate.units) - room.units), "commands": _list_commands(kernel),
    }  # fmt: skip


def _list_notes(kernel: Kernel, records: TaskRecords) -> list[str]:
    result, notes = kernel.shown.result, []
    if not records.admitted:
        notes.append("The task is quarantined: a wrong answer can pass on it, so no speedup counts.")
    if not kernel.shown.verified_here:
        notes.append(
            "This result was imported from another machine; the archive's own judges have not repeated it."
        )
    if kernel.outcome == "unconfirmed":
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


def _describe_time(entry: Entry, records: TaskRecords) -> str:
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


def _tabulate_times(entry: Entry, source: str, room: Room) -> Table:
    timing = entry.result.timing
    if timing is None or entry.result.status != "ok":
        return make_table("Times", (), [])
    times = (
        f"{microseconds(timing.median_us)} [{microseconds(timing.low_us)}, {microseconds(timing.high_us)}]"
    )
    rows: list[tuple[Any, ...]] = [
        ("this kernel", times),
        ("cache", timing.cache),
        ("samples", str(timing.samples)),
    ]
    rows += [(f"speedup over {baseline_name(r.baseline)}", show_ratio(r, name=False)) for r in timing.ratios]
    rows += [("share of the limit", share(timing.limit_share))] if timing.limit_share else []
    rows += [(f"unit {region} alone", microseconds(us)) for region, us in timing.unit_us.items()]
    return make_table("Times with their 95% intervals", ("what", "value"), rows, source, room.rows)


def _tabulate_results(kernel: Kernel, records: TaskRecords, source: str, room: Room) -> Table:
    rows = [
        (
            e.result.status, "confirmation" if e.result.confirmed else e.kind, show_ratio(_get_speedup(e)), find_machine(e, records),
            "imported" if not e.verified_here else "local", e.result.judged_at[:19], link_run(e.run_id) if e.run_id else "", e.result.reason,
        )
        for e in kernel.entries
    ]  # fmt: skip
    columns = ("status", "kind", "over the fastest baseline", "machine", "origin", "judged", "run", "reason")
    return make_table("All results, oldest first", columns, rows, source, room.rows)


def _get_speedup(entry: Entry) -> Ratio | None:
    return entry.result.speedup if entry.result.status == "ok" else None


def _describe_lineage(candidate: Candidate) -> str:
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


def _tabulate_relatives(
    candidate: Candidate, titles: Mapping[str, str], records: TaskRecords, source: str, room: Room
) -> Table:
    children = dict.fromkeys(
        e.candidate.id for e in records.entries if candidate.id in e.candidate.lineage.parents
    )
    pairs = [("parent", p) for p in candidate.lineage.parents] + [("child", c) for c in children]
    rows = [(kind, link_kernel(titles[key], key, key) if key in titles else key) for kind, key in pairs]
    return make_table("Parents and children", ("what", "kernel"), rows, source, room.rows)


def _find_parent(
    candidate: Candidate, titles: Mapping[str, str], records: TaskRecords, archives: MergedArchives
) -> Candidate | None:
    for key in candidate.lineage.parents:
        same = (e.candidate for e in records.entries if e.candidate.id == key)
        parent = next(same, None) if key in titles else archives.find_candidate(key)
        if parent is not None:
            return parent
    return None


def _compare(parent: Candidate, candidate: Candidate) -> list[Any]:
    return compare_sources(join_sources(parent), join_sources(candidate))


def _list_units(candidate: Candidate, room: Room) -> list[dict[str, Any]]:
    """List the units with their sources, which share the room."""
    file_id, units = make_file_id(candidate.id), candidate.units[: room.units]
    rows, size = [], room.source_bytes
    for number, unit in enumerate(units, 1):
        lines, missing = take_lines(
            highlight_source(unit.text, unit.language), size // (len(units) - number + 1)
        )
        size -= len(lines.encode())
        values = " ".join(f"{k}={v}" for k, v in unit.values.items())
        facts = [
            f"Covers {counted(len(unit.region.nodes), 'node')}: {unit.region.title}.",
            f"In {unit.language}.",
        ]
        facts += [f"Tunables: {values}."] if values else []
        facts += [f"Flags: {' '.join(unit.flags)}."] if unit.flags else []
        facts += [f"Requires {'; '.join(unit.requires)}."] if unit.requires else []
        rows.append(
            {
                "title": unit.technique or unit.family or "unit", "about": " ".join(facts), "lines": lines, "missing": missing,
                "href": _name_download(file_id, number, unit) if unit.text else "",
            }
        )  # fmt: skip
    return rows


def _name_download(file_id: str, number: int, unit: Unit) -> str:
    return f"{file_id}.{number}.{SUFFIXES[unit.language]}.txt"


def _list_commands(kernel: Kernel) -> list[str]:
    """List commands for whoever has the archive."""
    run_id = kernel.shown.run_id or next(iter(kernel.runs), "")
    if not run_id:
        return ["warpsmith archive list"]
    words = [["warpsmith", "archive", "show", run_id], ["warpsmith", "report", run_id]]
    if kernel.outcome == "win" and kernel.shown.verified_here:
        words.append(["warpsmith", "export", run_id, "--as", "source"])
    return [shlex.join(w) for w in words]

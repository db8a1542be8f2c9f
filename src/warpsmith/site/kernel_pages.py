"""The page of a kernel: verdict and checks, times, roofline, profiles, lineage, difference from the parent, relatives, source with its
schedule, downloads, commands. It stays below 150 kB.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..archive import Entry
from ..pages.bars import draw_ratios
from ..pages.highlighting import compare_sources, join_sources, take_lines
from ..pages.safety import make_file_id
from ..records import Candidate
from ..report.parts import checks
from ..wording import label
from .downloads import Downloads
from .json_records import dump_candidate, dump_entry
from .kernel_facts import (
    describe_lineage,
    describe_time,
    draw_kernel_roofline,
    draw_kernel_times,
    find_run,
    list_commands,
    list_kernel_notes,
    tabulate_relatives,
    tabulate_results,
    tabulate_similar,
    tabulate_times,
)
from .kernel_profile import list_notes, list_profiles
from .kernel_units import list_units, name_download
from .merging import MergedArchives, TaskRecords
from .neighbours import Neighbourhood
from .source_lines import SourceLines
from .standing import find_machine, find_outcome, find_standing, get_ratios, rank
from .tables import make_table
from .writing import Writer

MAX_PAGE_BYTES = 150_000


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


@dataclass
class KernelWriter:
    """Writes the pages, the JSON files and the downloads of kernels."""

    writer: Writer
    archives: MergedArchives
    neighbours: Neighbourhood
    downloads: Downloads
    sources: SourceLines = field(default_factory=SourceLines)

    def write_all(self, kernels: Sequence[Kernel], records: TaskRecords) -> None:
        titles = {
            k.candidate.id: label(k.candidate) for k in kernels
        }  # candidates of this task that have a page
        for kernel in kernels:
            self._write(kernel, records, titles)

    def _write(self, kernel: Kernel, records: TaskRecords, titles: Mapping[str, str]) -> None:
        candidate, file_id = kernel.candidate, make_file_id(kernel.candidate.id)
        for number, unit in enumerate(candidate.units, 1):
            if unit.text:
                self.writer.write_text(f"kernels/{name_download(file_id, number, unit)}", unit.text)
        data = {
            "candidate": dump_candidate(candidate),
            "outcome": kernel.outcome,
            "results": [dump_entry(e) for e in kernel.entries],
        }
        self.writer.write_json(f"api/kernels/{file_id}.json", data)
        run = find_run(kernel, records)
        files = self.downloads.write(
            self.writer,
            f"kernels/{file_id}",
            records.task,
            kernel.shown,
            run.run if run is not None else None,
        )
        parent = _find_parent(candidate, titles, records, self.archives)
        diff = _compare(parent, candidate) if parent is not None else []
        path = f"kernels/{file_id}.html"
        common = self._describe(kernel, records, files)
        for room in ROOMS:
            self.writer.write_page(
                path, "kernel.html", **common, **self._describe_long(kernel, records, titles, diff, room)
            )
            if (self.writer.folder / path).stat().st_size <= MAX_PAGE_BYTES:
                break
            self.writer.pages -= room is not ROOMS[-1]  # it is written once more

    def _describe(self, kernel: Kernel, records: TaskRecords, files: Mapping[str, str]) -> dict[str, Any]:
        """Describe what takes little room."""
        candidate, entry, run = kernel.candidate, kernel.shown, find_run(kernel, records)
        verdict, idea = entry.result.verdict, entry.hypothesis
        failed = verdict.failed if verdict is not None else None
        return {
            "task": records.task, "candidate": candidate, "label": label(candidate), "outcome": kernel.outcome, "files": files,
            "notes": list_kernel_notes(kernel.outcome, entry, records), "headline": describe_time(entry, records),
            "chart": draw_ratios(get_ratios(entry)[:12]), "time_chart": draw_kernel_times(entry, run),
            "roofline": draw_kernel_roofline(entry, run),
            "labels": verdict.labels[:20] if verdict is not None else (), "reasons": verdict.reasons[:10] if verdict is not None else (),
            "failure": f"{failed.rule} on {failed.family} inputs ({failed.variant}): {failed.detail}" if failed is not None else "",
            "seen": list_notes(entry), "lineage": describe_lineage(candidate), "evidence": idea.evidence[:10] if idea is not None else (),
            "similar": tabulate_similar(self.neighbours.list_relatives(candidate)), "commands": list_commands(kernel, files),
        }  # fmt: skip

    def _describe_long(
        self, kernel: Kernel, records: TaskRecords, titles: Mapping[str, str], diff: Sequence[Any], room: Room
    ) -> dict[str, Any]:
        """Describe what takes as much as there is room for."""
        candidate, entry = kernel.candidate, kernel.shown
        source = f"api/kernels/{make_file_id(candidate.id)}.json"
        shown, missing = take_lines(diff, room.diff_bytes)
        seconds = [(k, f"{v:.2f}") for k, v in entry.result.seconds.items()]
        rows = [
            (c.family, c.variant, f"{c.passed} of {c.checks}", f"{100 * c.worst_error:.1f}%")
            for c in checks(entry)
        ]
        columns = ("inputs", "shapes", "passed", "worst error, of the budget")
        return {
            "times": tabulate_times(entry, source, room.rows), "results": tabulate_results(kernel.entries, records, source, room.rows),
            "stages": make_table("Seconds by stage", ("stage", "seconds"), seconds, source, 20),
            "checks": make_table("Checks of the result above", columns, rows, source, room.rows),
            "profiles": list_profiles(entry, source) if room is not ROOMS[-1] else [],
            "relatives": tabulate_relatives(candidate, titles, records, source, room.rows), "diff": shown, "diff_missing": missing,
            "units": list_units(candidate, room.units, room.source_bytes, self.sources), "further": max(0, len(candidate.units) - room.units),
        }  # fmt: skip


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

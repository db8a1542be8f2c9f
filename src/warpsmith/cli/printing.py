"""The look of outcomes on standard output: tables and short blocks for people, JSON for programs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..errors import UsageError
from ..progress import counted, duration
from ..records import TOO_BUSY, Ratio, RunSummary, Timing
from ..records.intervals import describe_ratio, is_unknown

if TYPE_CHECKING:
    from ..report.pages import Page


TRY_AGAIN = (
    "neither a win nor none: run the same command again when the machine is quiet, or give it more time"
)


def print_rows(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table: framed on a terminal; elsewhere plain text, a line a row, nothing wrapped or cut, "-" for empty."""
    if sys.stdout.isatty():
        table = Table(*columns)
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        Console(highlight=False).print(table)
        return
    lines = [[" ".join(cell.split()) or "-" for cell in line] for line in [columns, *rows]]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def ratio_text(ratio: Ratio) -> str:
    """A speedup with its interval; one that is too noisy to tell anything is called unknown."""
    return describe_ratio(ratio)


def limit_text(timing: Timing) -> str:
    """The share of the limit that a time reaches, and what that limit is computed from."""
    text = f"{timing.limit_share:.0%} of the speed-of-light limit"
    if timing.limit is None or timing.limit.peaks is None:
        return text
    return f"{text} ({timing.limit.seconds * 1e6:.0f} us; {timing.limit.peaks.text})"


def write_text(text: str, out: Path | None, told: bool = True) -> None:
    """To a file (its folder is made; standard error says so if `told`) or, without one, to standard output."""
    if out is None:
        print(text.removesuffix("\n"))
        return
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text if text.endswith("\n") else f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{out} cannot be written: {error.strerror or error}") from error
    if told:
        print(f"wrote {out}", file=sys.stderr)


def outputs(json: str | None, out: Sequence[Path] | None) -> dict[Path, str]:
    """File → format: by its ending, and JSON for the file of --json. Raises UsageError for one that cannot be written."""
    from ..report.pages import format_of

    files = {path: format_of(path) for path in out or ()}
    files |= {Path(json): "json"} if json not in (None, "-") else {}
    for path in files:
        expect_writable(path)
    return files


def write_page(page: Page, files: Mapping[Path, str], told: bool = True) -> None:
    """Tables to files; `told` says so on standard error."""
    from ..report.pages import write

    for path, format in files.items():
        write_text(write(page, format), path, told)


def print_page(page: Page, json: str | None) -> None:
    """Tables for people on standard output; JSON, and nothing else, for "-"."""
    from ..report.pages import write

    if json == "-":
        write_text(write(page, "json"), None)
        return
    print("\n\n".join(page.lead))
    for grid in page.grids:
        if grid.rows:
            print(f"\n{grid.title}")
            print_rows(grid.columns, grid.rows)


def expect_writable(where: str | Path | None) -> None:
    """Refuse an unwritable file before the work that is to fill it. Raises UsageError."""
    if where is None or where == "-":
        return
    path = Path(where)
    folder = next(p for p in path.absolute().parents if p.exists())
    if path.is_dir() or not folder.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
        raise UsageError(f"{path} cannot be written: it is a folder, or its place is read-only")


def write_json(value: Any, where: str) -> None:
    """JSON to a file, or to standard output for "-"."""
    write_text(json.dumps(value, indent=2), None if where == "-" else Path(where))


def print_summary(summary: RunSummary) -> None:
    """A speedup with its baseline, interval, hardware and share of the limit, or why there is none."""
    print(f"{summary.task}: {summary.status}" + (f" ({summary.reason})" if summary.reason else ""))
    if summary.best is not None:
        best = summary.best
        print(f"  {ratio_text(best.speedup)} over {best.speedup.baseline}, the best baseline")
        print(f"  {ratio_text(best.speedup_eager)} over {best.speedup_eager.baseline}")
        if best.speedup_rewritten is not None:
            print(f"  {ratio_text(best.speedup_rewritten)} over the reference with the same rewrite in ATen")
        if not is_unknown(best.speedup):
            peaks = f"; {summary.peaks.text}" if summary.peaks is not None else ""
            limit = f"{best.limit_share:.0%} of the speed-of-light limit ({summary.limit_us:.0f} us{peaks})"
            print(f"  {best.median_us:.0f} us, {limit}")
        confirmed = "confirmed in fresh processes" if best.confirmed else "not confirmed"
        confirmed = "measured in fresh processes, not confirmed" if summary.status == TOO_BUSY else confirmed
        print(f"  {best.label}: {', '.join(best.labels)}; {confirmed}")
    for line in summary.left:
        print(f"  left as it is: {line}")
    for name, median in summary.baselines.items():
        print(f"  baseline {name}: {median:.0f} us")
    if summary.best is not None and summary.baselines:
        from ..wording import slow_baseline

        note = slow_baseline(summary.limit_us / min(summary.baselines.values()))
        if note:
            print(f"  note: {note}")
    if summary.hardware:
        print(f"  on {summary.hardware}")
    endings = {s: n for s, n in summary.stages.items() if s != "screened"}
    outcomes = "".join(f", {count} {status}" for status, count in endings.items())
    screened = f"{summary.screened} screened, " if summary.screened else ""
    print(f"  {screened}{summary.evaluations} judged in {duration(summary.seconds)}{outcomes}")
    if phases := summary.seconds_by_phase:
        print("  " + ", ".join(f"{name} {duration(seconds)}" for name, seconds in phases.items()))
    if summary.stopped:
        print(f"  stopped: {summary.stopped}")
    if summary.status == TOO_BUSY:
        print(f"  {TRY_AGAIN}")
    if summary.exchanges:
        cost = "price not known" if summary.usd is None else f"${summary.usd:.4f}"
        print(
            f"  language models: {counted(summary.exchanges, 'exchange')}, {summary.tokens:,} tokens, {cost}"
        )
    if not summary.admitted:
        print("  the task was not admitted: a cheating answer passes on it, so its numbers prove nothing")
    if summary.run_id:
        print(f"  warpsmith report {summary.run_id} --format html --out report.html")


def print_table(summaries: Sequence[RunSummary]) -> None:
    """One row a task, for several tasks; the hardware and what the columns mean stand below."""
    rows = []
    for s in summaries:
        best = s.best
        over = f"{ratio_text(best.speedup)} {best.speedup.baseline}" if best else ""
        eager = ratio_text(best.speedup_eager) if best else ""
        limit = f"{best.limit_share:.0%}" if best and not is_unknown(best.speedup) else ""
        note = s.reason or (best.label if best else "")
        rows.append(
            (s.task, s.status, over, eager, limit, str(s.evaluations), duration(s.seconds), s.run_id, note)
        )
    columns = (
        "task",
        "status",
        "over the best baseline",
        "over eager",
        "limit",
        "judged",
        "time",
        "run",
        "note",
    )
    print_rows(columns, rows)
    for hardware in dict.fromkeys(s.hardware for s in summaries if s.hardware):
        print(f"on {hardware}")
    print("limit: share of the task's speed-of-light floor on this machine; [low, high]: confidence interval")
    if any(s.status == TOO_BUSY for s in summaries):
        print(f"too-busy: {TRY_AGAIN}")
    if any(s.run_id for s in summaries):
        print("proof of a run: warpsmith report RUN --format html --out report.html")

"""The rows of `model_zoo.py` as a page: what ran, what was refused and why, every model with its speedup or loss."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from warpsmith.progress import counted
from warpsmith.report.markdown import escape, table
from warpsmith.report.tables import Grid
from warpsmith.wording import baseline_name, share

Row = dict[str, Any]
STATUSES = ("win", "no-win", "too-busy", "failed", "not covered", "refused", "wrong", "error", "timeout")
VERDICTS = (
    "win",
    "no-win",
    "too-busy",
    "failed",
    "not covered",
)  # the run went to its end and the module answers right
MEANINGS = {
    "win": "faster than the best baseline, its interval above 1",
    "too-busy": "judged, and the machine was too busy to tell: the original runs",
    "no-win": "judged, not faster: the original runs",
    "failed": "no candidate was right and confirmed: the original runs",
    "not covered": "the expert has nothing for this graph: the original runs",
    "refused": "`optimize` says why it does not take the model",
    "wrong": "the returned module answers otherwise than the original",
    "error": "an exception that names no cause for the user",
    "timeout": "not done within the limit",
}


def _name_baselines(rows: Sequence[Row]) -> str:
    names = sorted({name for row in rows for name in row.get("baselines") or {}}, key=("eager").__ne__)
    return f"the best of {', '.join(names)}" if len(names) > 1 else f"{''.join(names) or 'eager'} alone"


def render_page(rows: Sequence[Row], command: str, missing: int) -> str:
    """The page. `missing`: models that have not been run yet."""
    parts = [
        "# Model classes of three libraries, unchanged",
        f"Command: `{command}`",
        *_describe_conditions(rows),
        *([f"**{missing} models have not been run yet: the same command goes on.**"] if missing else []),
        "Small configurations, random weights, called as users call them. The returned module is compared with a copy "
        "of the original on the example inputs and on fresh ones: classes all the way down, values, and caches after "
        f"the call. Speedups are against {_name_baselines(rows)}, with 95% intervals, confirmed in fresh processes.",
        _describe_totals(rows),
        table(_count_statuses(rows)),
    ]
    for library in dict.fromkeys(_library(row) for row in rows):
        parts += [f"## {library}", table(_list_models([row for row in rows if _library(row) == library]))]
    parts += ["## Without an answer", _list_reasons(r for r in rows if r["status"] not in VERDICTS)]
    parts += ["## Without a win, and why", _list_reasons(r for r in rows if r["status"] in VERDICTS[1:])]
    return "\n\n".join(parts) + "\n"


def _describe_conditions(rows: Sequence[Row]) -> list[str]:
    conditions = Counter(
        (row["date"], row["machine"], ", ".join(f"{k} {v}" for k, v in row["versions"].items()))
        for row in rows if "machine" in row
    )  # fmt: skip
    return [
        f"{counted(count, 'model')} on {date}: {escape(machine)}; {escape(versions)}."
        for (date, machine, versions), count in sorted(conditions.items())
    ]


def _describe_totals(rows: Sequence[Row]) -> str:
    by = Counter(row["status"] for row in rows)
    ran = sum(by[status] for status in VERDICTS)
    losses = sum(row["status"] in VERDICTS and _is_loss(row) for row in rows)
    return (
        f"**{len(rows)} models: {ran} ran to a verdict with the same classes and values, {by['refused']} were refused by "
        f"name, {by['wrong']} answered wrongly, {by['error'] + by['timeout']} ended otherwise. {by['win']} wins; in "
        f"{losses} the best candidate was slower than the best baseline, so the original is kept.**"
    )


def _is_loss(row: Row) -> bool:
    return bool(row.get("speedup")) and row["speedup"][0] < 1


def _count_statuses(rows: Sequence[Row]) -> Grid:
    libraries = list(dict.fromkeys(_library(row) for row in rows))
    lines = []
    for status in STATUSES:
        counts = [sum(r["status"] == status and _library(r) == name for r in rows) for name in libraries]
        lines.append((status, *map(str, counts), str(sum(counts)), MEANINGS[status]))
    columns = ("status", *libraries, "all", "meaning")
    return Grid("Counts", columns, tuple(lines), frozenset(range(1, len(columns) - 1)))


def _list_models(rows: Sequence[Row]) -> Grid:
    lines = [
        (
            _name(row), row.get("family", "—"), _format_millions(row.get("parameters")), str(row.get("nodes") or "—"),
            row.get("output", "—"), row["status"], format_speedup(row), _format_baseline(row),
            share(row["limit_share"]) if "limit_share" in row else "—", _describe_parity(row),
            _describe_stages(row), f"{row['wall_s']:.0f} s",
        )
        for row in rows
    ]  # fmt: skip
    columns = (
        "model", "family", "parameters", "nodes", "returns", "status", "vs best", "best baseline", "of the limit",
        "same answer", "seconds by stage", "whole process",
    )  # fmt: skip
    strong = frozenset(i for i, row in enumerate(rows) if row["status"] == "win")
    return Grid("Models", columns, tuple(lines), frozenset({2, 3, 6, 8, 11}), strong)


def format_speedup(row: Row) -> str:
    """1.46× [1.40, 1.52], or a dash where nothing was judged."""
    if not row.get("speedup"):
        return "—"
    median, low, high = row["speedup"]
    return f"{median:.2f}× [{low:.2f}, {high:.2f}]"


def _format_baseline(row: Row) -> str:
    return baseline_name(row["baseline"]) if row.get("baseline") else "—"


def _format_millions(count: int | None) -> str:
    return f"{count / 1e6:.2f} M" if count else "—"


def _describe_parity(row: Row) -> str:
    if "example" not in row:
        return "—"
    differing = [name for name in ("example", "fresh") if row[name]]
    if differing:
        return f"no: {', '.join(differing)}"
    return (
        "yes, by kernels"
        if row["fast_calls"] == 2
        else "yes, by the original"
        if not row["fast_calls"]
        else "yes, partly"
    )


def _describe_stages(row: Row) -> str:
    stages = sorted(row.get("seconds_by_stage", {}).items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {seconds:.0f}" for name, seconds in stages if seconds >= 0.5) or "—"


def _list_reasons(rows: Iterable[Row]) -> str:
    lines = []
    for row in rows:
        log = f" ({escape(row['log'][-1])})" if row.get("log") else ""
        lines.append(f"- {escape(_name(row))}: {row['status']}: {escape(row['reason'])}{log}")
    return "\n".join(lines) or "None."


def _name(row: Row) -> str:
    return str(row["item"].partition("/")[2])


def _library(row: Row) -> str:
    return str(row["item"].partition("/")[0])

"""The report's tables as plain rows of text, shared by the text, markdown and HTML renderers."""

from __future__ import annotations

from dataclasses import dataclass

from ..records.intervals import is_unknown
from ..wording import baseline_name, interval, microseconds, share
from .blocks import Report


@dataclass(frozen=True)
class Grid:
    """A table: its title, its columns' names, its rows. `numbers` are the columns that line up on the
    right.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[int] = frozenset()
    strong: frozenset[int] = frozenset()  # rows that stand out


def baselines(report: Report) -> Grid:
    rows: list[tuple[str, ...]] = []
    strong: set[int] = set()
    for row in report.baselines:
        b = row.timing
        if row.best:
            strong.add(len(rows))
        name = baseline_name(b.name) + (" (best)" if row.best else "")
        if not b.ok:
            rows.append((name, "not measured", b.reason, "", ""))
            continue
        time = f"[{microseconds(b.low_us)}, {microseconds(b.high_us)}]"
        speedup = interval(row.speedup) if row.speedup else "—"
        rows.append((name, microseconds(b.median_us), time, share(b.limit_share), speedup))
    claim = report.claim
    if claim is not None:
        time = f"[{microseconds(claim.low_us)}, {microseconds(claim.high_us)}]"
        strong.add(len(rows))
        middle = (microseconds(claim.median_us), time, share(claim.limit_share))
        if is_unknown(claim.speedup):
            middle = ("unknown", time, "")
        rows.append((f"warpsmith: {claim.label}", *middle, ""))
    columns = ("what", "median", "95% interval", "of the limit", "our speedup over it")
    return Grid("Baselines", columns, tuple(rows), frozenset({1, 2, 3, 4}), frozenset(strong))


def attempts(report: Report) -> Grid:
    over = {a.speedup.baseline for a in report.attempts if a.speedup}
    baseline = baseline_name(next(iter(over))) if len(over) == 1 else "its best baseline"
    rows: list[tuple[str, ...]] = []
    strong: set[int] = set()
    for a in report.attempts:
        if report.claim is not None and a.candidate_id == report.claim.candidate_id:
            strong.add(len(rows))
        status = a.status if a.kind == "search" else f"{a.status} ({a.kind})"
        time = microseconds(a.median_us) if a.median_us else ""
        speedup = interval(a.speedup) if a.speedup else ""
        if a.speedup and len(over) > 1:
            speedup += f" {baseline_name(a.speedup.baseline)}"
        limit = share(a.limit_share) if a.limit_share else ""
        rows.append((str(a.number), a.label, a.operator, status, time, speedup, limit, a.reason or a.detail))
    columns = (
        "#",
        "candidate",
        "operator",
        "outcome",
        "median",
        f"over {baseline}",
        "of the limit",
        "detail",
    )
    return Grid("Attempts", columns, tuple(rows), frozenset({0, 4, 5, 6}), frozenset(strong))


def failures(report: Report) -> Grid:
    rows = [
        (f.status if first else "", str(f.count) if first else "", f"{count}×", reason)
        for f in report.failures
        for first, (reason, count) in ((i == 0, r) for i, r in enumerate(f.reasons))
    ]
    return Grid("Failures by stage", ("stage", "all", "times", "reason"), tuple(rows), frozenset({1, 2}))


def checks(report: Report) -> Grid:
    rows = [
        (
            c.family,
            c.variant,
            f"{c.passed}/{c.checks}",
            f"{100 * c.worst_error:.1f}%" if c.worst_error else "0",
        )
        for c in report.checks
    ]
    columns = ("inputs", "shapes", "passed", "worst error, of the budget")
    return Grid("Correctness of the winner", columns, tuple(rows), frozenset({2, 3}))


def mutants(report: Report) -> Grid:
    rows = tuple((name, rule) for name, rule in report.mutants.items())
    return Grid("Task admission: mutants and what caught them", ("mutant", "caught by"), rows)


def environment(report: Report) -> Grid:
    e = report.environment
    rows = [
        ("processor", e.cpu), ("cores, threads", f"{e.cores}, {e.threads}"),
        ("memory", f"{e.memory_gb:g} GB"),
        ("SIMD", e.simd), ("system", e.os), ("Python, torch", f"{e.python}, {e.torch}"),
        ("compiler", e.compiler),
        ("seed", str(report.seed)), ("run", report.run_id), ("started", report.started_at[:19] + " UTC"),
    ]  # fmt: skip
    if e.device and e.device != e.cpu:
        rows.insert(1, ("device", e.device))
    if report.limit is not None:
        bandwidth, arithmetic = report.limit.bytes_per_second / 1e9, report.limit.flops_per_second / 1e9
        rate = f"{bandwidth:.1f} GB/s, {arithmetic:.0f} GFLOP/s"
        used = report.limit.peaks
        rows.append(("measured peaks", f"{rate}; {used.text}" if used is not None else rate))
        bound = f"{microseconds(report.limit.seconds * 1e6)} ({report.limit.bound}-bound)"
        rows.append(("limit of this task", bound))
    if report.claim is not None and report.claim.isolation:
        rows.append(("isolation", report.claim.isolation))
    return Grid("Environment", ("what", "value"), tuple(rows))


def describe_comparison(report: Report) -> str:
    """Describe what the bare ratios of the lineage and the plots mean, in one line."""
    return (
        f"Ratios are medians over each candidate's best baseline, measured side by side on {report.hardware}."
    )


def stages(report: Report) -> str:
    """Counts by outcome, in one line."""
    return ", ".join(f"{n} {status}" for status, n in report.stages.items()) or "nothing judged"


def wall(report: Report) -> str:
    """Describe where the time went, in one line."""
    parts = [f"{name} {seconds:.1f} s" for name, seconds in report.seconds_by_stage.items()]
    return f"{report.seconds:.1f} s" + (f" ({', '.join(parts)})" if parts else "")

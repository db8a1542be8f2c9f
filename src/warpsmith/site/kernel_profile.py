"""What was seen of a kernel beside its time: its units against their limits, the compiler's report, the sandbox and the sanitizers."""

from __future__ import annotations

from ..archive import Entry
from ..records import RegionProfile
from ..wording import microseconds, share
from .tables import Cell, Table, make_table

MAX_ROWS = 40


def list_profiles(entry: Entry, source: str) -> list[Table]:
    """Return the tables that have rows."""
    tables = (
        _tabulate_regions(entry, source),
        _tabulate_resources(entry, source),
        _tabulate_diagnostics(entry, source),
    )
    return [t for t in tables if t.rows]


def list_notes(entry: Entry) -> list[str]:
    """List what the profilers could not see, how the kernel was shut in, and what the GPU did meanwhile."""
    result = entry.result
    notes = list(result.profile.notes) if result.profile is not None else []
    for region in result.profile.regions if result.profile is not None else ():
        notes += [f"Calls single-number functions: {', '.join(region.calls)}."] if region.calls else []
        notes += [f"Not seen: {text}" for text in region.missing]
    verdict, timing = result.verdict, result.timing
    if verdict is not None and verdict.isolation:
        notes.append(f"Verified in isolation by {verdict.isolation}.")
    if timing is not None and timing.gpu_state:
        notes.append(
            "After the calls: "
            + ", ".join(f"{name} {value:g}" for name, value in timing.gpu_state.items())
            + "."
        )
    return list(dict.fromkeys(notes))[:12]


def _tabulate_regions(entry: Entry, source: str) -> Table:
    profile = entry.result.profile
    rows = [
        (
            Cell(r.technique or r.family or r.region, note=", ".join(f"{k}={v}" for k, v in r.values.items())),
            Cell(microseconds(r.seconds * 1e6), kind="n", sort=f"{r.seconds:.9f}"), Cell(share(r.limit_share), kind="n"), r.bottleneck,
            Cell(f"{r.least_bytes / 1e6:.3g} MB", kind="n", sort=str(r.least_bytes)), Cell(f"{r.flops / 1e6:.3g} MFLOP", kind="n", sort=str(r.flops)),
            _describe_code(r),
        )
        for r in (profile.regions if profile is not None else ())
    ]  # fmt: skip
    columns = (
        "unit, alone",
        "time",
        "of its limit",
        "bound by",
        "least traffic",
        "arithmetic",
        "machine code",
    )
    return make_table("Units against their limits", columns, rows, source, MAX_ROWS)


def _describe_code(region: RegionProfile) -> str:
    words = []
    if region.vector_share is not None:
        words.append(f"{share(region.vector_share)} of its floating-point instructions work on vectors")
    if region.vector_bits and region.register_bits:
        words.append(f"{region.vector_bits} of {region.register_bits} bits")
    if region.balance is not None:
        words.append(f"threads balanced to {share(region.balance)}")
    return ", ".join(words)


def _tabulate_resources(entry: Entry, source: str) -> Table:
    rows = {
        (
            k.name, k.arch, Cell(str(k.registers), kind="n"), Cell(f"{k.shared_bytes}", kind="n"),
            Cell(str(k.spill_store_bytes + k.spill_load_bytes), kind="n"), Cell(str(k.stack_bytes), kind="n"), b.variant,
        ): None
        for b in entry.result.builds
        for k in b.kernels
    }  # fmt: skip
    columns = ("kernel", "arch", "registers", "shared bytes", "spilled bytes", "stack bytes", "shapes")
    return make_table(
        "The compiler's report: resources of a thread and a block", columns, list(rows), source, MAX_ROWS
    )


def _tabulate_diagnostics(entry: Entry, source: str) -> Table:
    rows = {
        (d.kind, Cell(str(d.line), kind="n"), d.message, b.variant): None
        for b in entry.result.builds
        for d in b.diagnostics
    }
    return make_table(
        "Diagnostics of the build", ("kind", "line", "message", "shapes"), list(rows), source, MAX_ROWS
    )

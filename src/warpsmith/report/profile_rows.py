"""The profile of the claimed candidate: each unit as it ran alone, its kernels' resources, and what the agents read in that."""

from __future__ import annotations

from collections.abc import Sequence

from ..agents.findings import findings
from ..archive import Entry
from ..records import Build, Profile, RegionProfile
from ..wording import microseconds, share
from .blocks import ProfileRow, Report
from .tables import Grid


def list_profile_rows(best: Entry, entries: Sequence[Entry]) -> tuple[ProfileRow, ...]:
    """List the units, the slowest first. A confirmation has no profile: then that of the search counts."""
    profile, builds = _find_profile(best, entries)
    if profile is None:
        return ()
    units = {u.region.id: u for u in best.candidate.units}
    rows = []
    for region in sorted(profile.regions, key=lambda r: -r.seconds):
        unit = units.get(region.region)
        built = [b for b in builds if unit is not None and b.unit_key == unit.code_key and b.ok]
        rows.append(_make_row(region, unit.region.nodes if unit is not None else (), built))
    return tuple(rows)


def list_profile_notes(best: Entry, entries: Sequence[Entry]) -> tuple[str, ...]:
    profile, _ = _find_profile(best, entries)
    missing = (text for region in profile.regions for text in region.missing) if profile is not None else ()
    return tuple(dict.fromkeys((*profile.notes, *missing))) if profile is not None else ()


def profile(report: Report) -> Grid:
    rows = tuple(
        (
            r.technique, ", ".join(r.nodes), microseconds(1e6 * r.seconds), f"{share(r.limit_share)}, {r.bottleneck}",
            share(r.balance) if r.balance is not None else "", _describe_vectors(r), r.resources, "; ".join(r.findings),
        )
        for r in report.profile
    )  # fmt: skip
    columns = (
        "unit",
        "covers",
        "alone",
        "of its limit",
        "balance of threads",
        "vectors",
        "resources",
        "what it says",
    )
    used = [i for i in range(len(columns)) if any(row[i] for row in rows)]
    cut = tuple(tuple(row[i] for i in used) for row in rows)
    return Grid(
        "Profile of the winner's units, each alone", tuple(columns[i] for i in used), cut, frozenset({2})
    )


def _find_profile(best: Entry, entries: Sequence[Entry]) -> tuple[Profile | None, tuple[Build, ...]]:
    same = [best, *(e for e in reversed(entries) if e.candidate.id == best.candidate.id)]
    profiled = next((e for e in same if e.result.profile is not None and e.result.profile.regions), None)
    return (profiled.result.profile, profiled.result.builds) if profiled is not None else (None, ())


def _make_row(region: RegionProfile, nodes: tuple[str, ...], builds: Sequence[Build]) -> ProfileRow:
    return ProfileRow(
        technique=region.technique or region.family or "unit", nodes=nodes, seconds=region.seconds, limit_share=region.limit_share,
        bottleneck=region.bottleneck, balance=region.balance, vector_bits=region.vector_bits, vector_share=region.vector_share,
        resources=_describe_resources(builds), findings=tuple(f.text for f in findings(region)),
    )  # fmt: skip


def _describe_resources(builds: Sequence[Build]) -> str:
    """Name registers, shared memory and spills of the kernels at the main shape, which is built first."""
    kernels = next((b.kernels for b in builds if b.kernels), ())
    parts = []
    for kernel in kernels:
        spills = kernel.spill_load_bytes + kernel.spill_store_bytes
        suffix = f", {spills} bytes spilled" if spills else ""
        parts.append(
            f"{kernel.name}: {kernel.registers} registers, {kernel.shared_bytes} bytes shared{suffix}"
        )
    return "; ".join(parts)


def _describe_vectors(row: ProfileRow) -> str:
    bits = f"{row.vector_bits} bits" if row.vector_bits else ""
    part = f"{share(row.vector_share)} of its arithmetic" if row.vector_share is not None else ""
    return ", ".join(text for text in (bits, part) if text)

"""The blocks of a report that are drawn from the judged candidates: attempts, failures, lineage, plots,
sources, evidence.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from ..archive import Entry, RunRecord
from ..archive.reading import ArchiveReader
from ..records import STATUSES
from ..records.intervals import find_point, find_worth
from ..wording import baseline_name, label, slow_baseline
from .blocks import (
    Attempt,
    CheckRow,
    Evidence,
    Failure,
    ProgressPoint,
    RooflinePoint,
    Source,
    TreeNode,
)


def attempts(entries: list[Entry]) -> tuple[Attempt, ...]:
    return tuple(_attempt(entry) for entry in entries)


def failures(entries: list[Entry]) -> tuple[Failure, ...]:
    reasons: dict[str, Counter[str]] = defaultdict(Counter)
    for entry in entries:
        if not entry.result.passed:
            reasons[entry.result.status][entry.result.reason] += 1
    return tuple(
        Failure(status=status, count=reasons[status].total(), reasons=tuple(reasons[status].most_common(5)))
        for status in STATUSES
        if status in reasons
    )


def lineage(entries: list[Entry], best: Entry | None) -> tuple[TreeNode, ...]:
    """Each candidate once, in the order judged; its status and speedup are those of its last result."""
    last = {e.candidate.id: e for e in entries}
    first = {e.candidate.id: e.number for e in reversed(entries)}
    path: set[str] = set()
    queue = [best.candidate.id] if best is not None else []
    while queue:
        current = queue.pop()
        if current in last and current not in path:
            path.add(current)
            queue += last[current].candidate.lineage.parents
    return tuple(
        TreeNode(
            candidate_id=key, parents=tuple(p for p in last[key].candidate.lineage.parents if p in last),
            number=number, label=label(last[key].candidate), operator=last[key].candidate.lineage.operator,
            status=last[key].result.status, speedup=_speedup(last[key]), on_path=key in path,
            ratio=last[key].result.speedup if last[key].result.status == "ok" else None,
        )
        for key, number in sorted(first.items(), key=lambda item: item[1])
    )  # fmt: skip


def progress(entries: list[Entry]) -> tuple[ProgressPoint, ...]:
    """Speedup over the best baseline by evaluation, and the best so far by what is sure of it. Confirmations are left out: they judge nothing
    new; and so is what was only screened, which has no speedup.
    """
    points, best = [], 0.0
    judged = (e for e in entries if e.kind != "confirmation" and e.result.status != "screened")
    for count, entry in enumerate(judged, 1):
        speedup, best = _speedup(entry), max(best, find_entry_worth(entry))
        points.append(
            ProgressPoint(evaluations=count, speedup=speedup, best=best, candidate_id=entry.candidate.id)
        )
    return tuple(points)


def roofline(run: RunRecord, entries: list[Entry], best: Entry | None) -> tuple[RooflinePoint, ...]:
    """The rate at which each does the reference's arithmetic. Empty when the task has none, or no limit
    was measured.
    """
    limit = run.limit
    if limit is None or not limit.flops or not limit.least_bytes:
        return ()
    points = [(baseline_name(b.name), "baseline", b.median_us) for b in run.baselines if b.ok]
    for entry in entries:
        if entry.result.timing is not None and entry.result.status == "ok":
            chosen = (
                best is not None and entry.candidate.id == best.candidate.id and entry.number == best.number
            )
            points.append(
                (label(entry.candidate), "best" if chosen else "candidate", entry.result.timing.median_us)
            )
    return tuple(
        RooflinePoint(
            name=name, kind=kind, intensity=limit.flops / limit.least_bytes,
            flops_per_second=limit.flops / (us * 1e-6)
        )
        for name, kind, us in points
        if us > 0
    )  # fmt: skip


def sources(best: Entry) -> tuple[Source, ...]:
    flags = {b.unit_key: b.flags for b in best.result.builds if b.ok}
    return tuple(
        Source(
            title=unit.technique or unit.family or "unit", language=unit.language, nodes=unit.region.nodes, source=unit.text,
            values=unit.values, flags=unit.flags, requires=unit.requires,
            compiler_flags=flags.get(unit.code_key, ()),
        )
        for unit in best.candidate.units
    )  # fmt: skip


def evidence(archive: ArchiveReader, entries: list[Entry], best: Entry) -> tuple[Evidence, ...]:
    """The claimed candidate and its ancestors, oldest first. A hypothesis is told once, where it first
    led to one.
    """
    last = {e.candidate.id: e for e in entries}
    first = {e.candidate.id: e.number for e in reversed(entries)}
    ancestors = sorted(archive.ancestors(best.candidate.id), key=lambda c: first.get(c.id, 0))
    chain = [*ancestors, best.candidate]
    steps, said = [], set()
    for candidate in chain:
        lineage, entry = candidate.lineage, last.get(candidate.id)
        fresh = bool(lineage.hypothesis) and lineage.hypothesis not in said
        said.add(lineage.hypothesis)
        idea = archive.hypothesis(lineage.hypothesis) if fresh else None
        told_by_evidence = idea is not None and idea.evidence and lineage.reason.startswith(idea.evidence[0])
        steps.append(
            Evidence(
                candidate_id=candidate.id, label=label(candidate), operator=lineage.operator, agent=lineage.agent,
                model=" + ".join(lineage.credit), reason="" if told_by_evidence else lineage.reason, bottleneck=idea.bottleneck if idea else "",
                expected_gain=idea.expected_gain if idea else 0.0, evidence=idea.evidence if idea else (),
                measured=entry.result.speedup if entry else None, status=entry.result.status if entry else "",
            )
        )  # fmt: skip
    return tuple(steps)


def checks(best: Entry) -> tuple[CheckRow, ...]:
    """The claimed candidate's verdict by input family and shape variant."""
    verdict = best.result.verdict
    groups: dict[tuple[str, str], list[tuple[bool, float]]] = defaultdict(list)
    for check in verdict.checks if verdict is not None else ():
        groups[check.family, check.variant].append((check.ok, check.error))
    return tuple(
        CheckRow(
            family=family, variant=variant, checks=len(rows), passed=sum(ok for ok, _ in rows),
            worst_error=max(error for _, error in rows),
        )
        for (family, variant), rows in groups.items()
    )  # fmt: skip


def warnings(run: RunRecord, best: Entry | None) -> tuple[str, ...]:
    """List what a careful reader should know before quoting the speedup."""
    lines = []
    if run.origin == "imported" and (best is None or not best.verified_here):
        lines.append("This run was imported from another machine and is unverified until it is judged here.")
    if run.admission is not None and not run.admission.admitted:
        reasons = "; ".join(run.admission.reasons) or "a mutant passes on it"
        lines.append(f"The task is quarantined, so no speedup on it counts: {reasons}.")
    timing = best.result.timing if best is not None else None
    if timing is not None and not timing.confirmed:
        lines.append(
            "The best candidate was not measured again in fresh processes: best of many noisy numbers."
        )
    fastest = min((b for b in run.baselines if b.ok), key=lambda b: b.median_us, default=None)
    if fastest is not None and (slow := slow_baseline(fastest.limit_share)):
        lines.append(slow)
    for baseline in run.baselines:
        if not baseline.ok:
            lines.append(
                f"{baseline_name(baseline.name)} could not be measured: "
                f"{baseline.reason or 'no reason given'}."
            )
    labels = best.result.verdict.labels if best is not None and best.result.verdict is not None else ()
    if "algorithmic" in labels:
        lines.append("The gain is algorithmic: the candidate does fewer operations than the reference.")
        lines += _no_rewritten_reference(best)
    if "library" in labels:
        lines.append(
            "The gain is the library's, in part or in all: the same operations in other calls or layouts."
        )
    if "specialised" in labels:
        lines.append("The kernel is specialised: it requires shapes that not every input has.")
    return tuple(lines)


def _no_rewritten_reference(best: Entry | None) -> list[str]:
    """Why an algorithmic gain was not measured against the reference with the same rewrite, if it was not."""
    if best is None or best.result.timing is None:
        return []
    if all(unit.rewrite is None for unit in best.candidate.units):
        return ["No unit states its rewrite in ATen, so no rewritten reference was timed beside it."]
    rewritten = best.result.timing.rewritten
    if rewritten is None or rewritten.ok:  # not confirmed yet, or measured
        return []
    return [f"The rewritten reference could not be measured: {rewritten.reason}."]


def _attempt(entry: Entry) -> Attempt:
    result, timing = entry.result, entry.result.timing
    return Attempt(
        number=entry.number, candidate_id=entry.candidate.id, label=label(entry.candidate),
        operator=entry.candidate.lineage.operator, kind=entry.kind, origin=entry.origin, status=result.status,
        reason=result.reason, detail=_detail(entry), median_us=timing.median_us if timing else 0.0,
        speedup=result.speedup, limit_share=timing.limit_share if timing else 0.0,
        confirmed=result.confirmed, elapsed=entry.elapsed,
    )  # fmt: skip


def _detail(entry: Entry) -> str:
    failed = entry.result.verdict.failed if entry.result.verdict is not None else None
    if failed is not None:
        return f"{failed.rule} on {failed.family} inputs ({failed.variant}): {failed.detail}"
    broken = next(
        (d for b in entry.result.builds if not b.ok for d in b.diagnostics if d.kind != "warning"), None
    )
    if broken is not None:
        return f"line {broken.line}: {broken.message}" if broken.line else broken.message
    values = {k: v for u in entry.candidate.units for k, v in u.values.items()}
    return " ".join(f"{name}={value}" for name, value in values.items())


def _speedup(entry: Entry) -> float:
    ratio = entry.result.speedup
    return find_point(ratio) if entry.result.status == "ok" and ratio is not None else 0.0


def find_entry_worth(entry: Entry) -> float:
    """Return what is sure of an entry's speedup; 0 for one that is not correct."""
    return find_worth(entry.result.speedup) if entry.result.status == "ok" else 0.0

"""From an archive and a run's id to the blocks of its report: which candidate is claimed, how, and on
what grounds.
"""

from __future__ import annotations

from collections import Counter

from .. import wording
from ..archive import Entry, RunRecord
from ..archive.reading import ArchiveReader
from ..records import STATUSES, TOO_BUSY, Environment
from . import exchanges
from .blocks import BaselineRow, Claim, Report
from .chain import chain
from .changes import find_change, list_replaced
from .commands import commands
from .evolution import evolution
from .parts import (
    attempts,
    checks,
    evidence,
    failures,
    find_entry_worth,
    lineage,
    progress,
    roofline,
    sources,
    warnings,
)
from .profile_rows import list_profile_notes, list_profile_rows
from .usage import list_uses


def build_report(archive: ArchiveReader, run_id: str | None = None) -> Report:
    """The blocks of a run (None: the latest). Raises ArchiveError when there is no such run."""
    run = archive.run(run_id)
    return assemble_report(archive, run, archive.run_entries(run.run_id))


def assemble_report(archive: ArchiveReader, run: RunRecord, entries: list[Entry]) -> Report:
    """The same of a run and of what it judged, which were read already."""
    best = find_claimed_entry(run, entries)
    claim = _claim(best, run.environment) if best is not None else None
    status, reason = _status(run, entries, claim)
    summary = run.summary
    task = archive.task(run.task_id)
    return Report(
        run_id=run.run_id, task=run.task_name, target=run.target, status=status, reason=reason,
        headline=_headline(run.task_name, status, claim, reason), started_at=run.started_at,
        finished_at=run.finished_at,
        stopped=summary.stopped if summary else "", seconds=summary.seconds if summary else 0.0,
        evaluations=summary.evaluations if summary else sum(e.kind == "search" for e in entries),
        seed=run.seed,
        origin=run.origin, hardware=wording.hardware(run.environment), environment=run.environment,
        config=run.config,
        claim=claim, limit=run.limit, baselines=_baselines(run, claim, best), attempts=attempts(entries),
        stages=_stages(entries), seconds_by_stage=summary.seconds_by_stage if summary else {},
        failures=failures(entries), lineage=lineage(entries, best), progress=progress(entries),
        roofline=roofline(run, entries, best), sources=sources(best) if best else (),
        evidence=evidence(archive, entries, best) if best else (), chain=chain(entries),
        exchanges=exchanges.rows(archive.exchanges(run.run_id), entries),
        translation=summary.translation if summary else None, evolution=evolution(summary, entries),
        checks=checks(best) if best else (),
        mutants=run.admission.mutants if run.admission else {},
        admitted=run.admission.admitted if run.admission else True, warnings=warnings(run, best),
        commands=commands(run, task, status == "win" and run.origin == "local"),
        left=summary.left if summary else (),
        profile=list_profile_rows(best, entries) if best else (), profile_notes=list_profile_notes(best, entries) if best else (),
        change=find_change(archive, entries, best) if best else None, replaced=list_replaced(task, best) if best and task else (),
        reference=task.source.text if task is not None else "",
        uses=list_uses(run, best) if best and status == "win" and run.origin == "local" else (),
    )  # fmt: skip


def find_claimed_entry(run: RunRecord, entries: list[Entry]) -> Entry | None:
    """The entry the run's summary stands on; of an unfinished run, its best confirmed or else its best
    correct one.
    """
    if run.summary is not None and run.summary.best is not None:
        candidate_id = run.summary.best.candidate_id
        claims = [e for e in entries if e.candidate.id == candidate_id and e.result.status == "ok"]
        if claims:
            return max(claims, key=lambda e: (e.result.confirmed, e.number))
    if run.summary is not None:
        return None
    timed = [e for e in entries if e.result.status == "ok"]
    return max(timed, key=lambda e: (e.result.confirmed, find_entry_worth(e)), default=None)


def _claim(entry: Entry, environment: Environment) -> Claim | None:
    timing, verdict = entry.result.timing, entry.result.verdict
    if timing is None or verdict is None or timing.best is None:
        return None
    eager = timing.ratio("eager")
    return Claim(
        text=wording.claim(timing.best, environment, timing.limit_share),
        eager_text=wording.claim(eager, environment, timing.limit_share) if eager not in (None, timing.best) else "",
        label=wording.label(entry.candidate), candidate_id=entry.candidate.id, labels=verdict.labels,
        speedup=timing.best, speedup_eager=eager, median_us=timing.median_us, low_us=timing.low_us,
        high_us=timing.high_us, limit_share=timing.limit_share, confirmed=timing.confirmed,
        win=entry.result.win,
        isolation=verdict.isolation,
    )  # fmt: skip


def _status(run: RunRecord, entries: list[Entry], claim: Claim | None) -> tuple[str, str]:
    if run.summary is not None:
        return run.summary.status, run.summary.reason or _why_nothing(entries, claim)
    return "unfinished", "the run has not finished: the same command goes on from here"


def _why_nothing(entries: list[Entry], claim: Claim | None) -> str:
    if claim is not None:
        return "" if claim.win else "the interval against the best baseline does not lie above 1"
    if not entries:
        return "nothing was judged"
    counts = Counter(e.result.status for e in entries if e.result.status != "ok")
    return "no valid result: " + ", ".join(f"{n} {status}" for status, n in counts.most_common())


def _headline(task: str, status: str, claim: Claim | None, reason: str) -> str:
    if claim is None:
        return (
            f"{task}: no valid result ({reason})" if status != "unfinished" else f"{task}: nothing valid yet"
        )
    prefix = {"win": "", "unfinished": "so far ", TOO_BUSY: "too busy to tell: "}.get(status, "no win: ")
    suffix = "" if claim.confirmed else ", not yet confirmed"
    return f"{task}: {prefix}{claim.text}{suffix}"


def _baselines(run: RunRecord, claim: Claim | None, best: Entry | None) -> tuple[BaselineRow, ...]:
    timing = best.result.timing if best is not None else None
    fastest = min((b.median_us for b in run.baselines if b.ok), default=0.0)
    named = claim.speedup.baseline if claim is not None else ""
    rewritten = (timing.rewritten,) if timing is not None and timing.rewritten is not None else ()
    return tuple(
        BaselineRow(
            timing=b,
            speedup=timing.ratio(b.name) if timing is not None else None,
            best=b.name == named if named else b.ok and b.median_us == fastest,
        )
        for b in (*run.baselines, *rewritten)
    )


def _stages(entries: list[Entry]) -> dict[str, int]:
    counts = Counter(e.result.status for e in entries if e.kind != "confirmation")
    return {status: counts[status] for status in STATUSES if counts[status]}

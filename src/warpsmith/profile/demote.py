"""`sanitize_winner` runs a confirmed winner under the sanitizers and demotes it if they report a finding.

A result and the open judge that gave it in; the same result out, or an incorrect one whose failed checks are the
findings. A tool that is not installed changes nothing; the verdict's isolation
says which sanitizers ran.
"""

from __future__ import annotations

from ..judge.correctness.input_families import OWN
from ..judge.judge_session import JudgeSession
from ..records import Candidate, Check, Result
from ..targets.native_target import NativeTarget
from .sanitizer import SanitizerReport, sanitize


def sanitize_winner(result: Result, candidate: Candidate, judge: JudgeSession) -> Result:
    """Return a win after its run under the sanitizers, any other result unchanged. Raises what `sanitize` raises."""
    if not result.win:
        return result
    cache = judge.target.cache.directory if isinstance(judge.target, NativeTarget) else judge.workdir
    judge.progress("running it under the sanitizers")
    report = sanitize(
        candidate,
        judge.task,
        judge.target,
        judge.evidence,
        scratch=judge.scratch,
        cache_dir=cache,
        seed=judge.seed,
        device_lock=judge.device_lock,
    )
    return demote(result, report)


def demote(result: Result, report: SanitizerReport) -> Result:
    """Return the result with the sanitizers' report: incorrect when it has a finding."""
    verdict = result.verdict
    if verdict is None:
        return result
    summary = (
        f"sanitizers: {'+'.join(report.ran)}"
        if report.ran
        else "; ".join(report.not_available) or "no sanitizers"
    )
    if report.ran and report.not_available:
        summary += f"; {'; '.join(report.not_available)}"
    if report.too_large:
        summary += f" (not at {', '.join(report.too_large)}: too large)"
    verdict = verdict.model_copy(update={"isolation": f"{verdict.isolation}; {summary}"})
    if report.ok:
        return result.model_copy(update={"verdict": verdict})
    failed_checks = tuple(
        Check(
            variant=f.variant,
            family=OWN,
            where=f.region,
            ok=False,
            rule=f"sanitizer-{f.tool}",
            detail=f.message,
        )
        for f in report.findings
    )
    reason = f"{failed_checks[0].rule}: {report.findings[0]}"
    changes = {
        "correct": False,
        "checks": (*verdict.checks, *failed_checks),
        "reasons": (*verdict.reasons, reason),
    }
    return result.model_copy(
        update={"status": "incorrect", "reason": reason, "verdict": verdict.model_copy(update=changes)}
    )

"""A confirmed winner, as it stands after the sanitizers.

A result and the open judge that gave it in; the same result out, or an incorrect one whose failed checks are the
findings. A tool that is missing here changes nothing: a winner is not better than what could be checked, and the
verdict's isolation says which sanitizers ran.
"""

from __future__ import annotations

from ..judge.correctness.input_families import OWN
from ..judge.judge_session import JudgeSession
from ..records import Candidate, Check, Result
from ..targets.native import NativeTarget
from .sanitizer import Sanitized, sanitize


def after_sanitizers(result: Result, candidate: Candidate, judge: JudgeSession) -> Result:
    """Only a win is looked at: nothing else is kept as a winner. Raises what `sanitize` raises."""
    if not result.win:
        return result
    cache = judge.target.cache.directory if isinstance(judge.target, NativeTarget) else judge.workdir
    judge.progress("running it under the sanitizers")
    found = sanitize(
        candidate,
        judge.task,
        judge.target,
        judge.evidence,
        scratch=judge.scratch,
        cache_dir=cache,
        seed=judge.seed,
        device_lock=judge.device_lock,
    )
    return demoted(result, found)


def demoted(result: Result, found: Sanitized) -> Result:
    """The result with what was found: incorrect when anything was."""
    verdict = result.verdict
    if verdict is None:
        return result
    ran = (
        f"sanitizers: {'+'.join(found.ran)}"
        if found.ran
        else "; ".join(found.not_available) or "no sanitizers"
    )
    if found.ran and found.not_available:
        ran += f"; {'; '.join(found.not_available)}"
    if found.too_large:
        ran += f" (not at {', '.join(found.too_large)}: too large)"
    verdict = verdict.model_copy(update={"isolation": f"{verdict.isolation}; {ran}"})
    if found.ok:
        return result.model_copy(update={"verdict": verdict})
    failed = tuple(
        Check(
            variant=f.variant,
            family=OWN,
            where=f.region,
            ok=False,
            rule=f"sanitizer-{f.tool}",
            detail=f.message,
        )
        for f in found.findings
    )
    reason = f"{failed[0].rule}: {found.findings[0]}"
    changed = {"correct": False, "checks": (*verdict.checks, *failed), "reasons": (*verdict.reasons, reason)}
    return result.model_copy(
        update={"status": "incorrect", "reason": reason, "verdict": verdict.model_copy(update=changed)}
    )

"""Why a candidate failed, as one line: "stage: message". It is what repairs are asked about, and what lessons are kept by."""

from __future__ import annotations

from collections.abc import Sequence

from ..records import Diagnostic, Result
from ..targets.diagnostics import one_line

LONGEST = 400


def failure_of(result: Result) -> str:
    """Describe the failure of a result; empty when it is ok."""
    if result.passed:
        return ""
    broken = next((b for b in result.builds if not b.ok), None)
    if broken is not None and result.status in ("build-failed", "refused"):
        return failure_of_build(broken.diagnostics)
    check = result.verdict.failed if result.verdict is not None else None
    if check is not None:
        return f"{result.status}: {check.rule} on {check.family} inputs: {check.detail}"[:LONGEST]
    return f"{result.status}: {result.reason}"[:LONGEST]


def failure_of_build(diagnostics: Sequence[Diagnostic]) -> str:
    messages = [d for d in diagnostics if d.kind != "warning"]
    return f"build-failed: {one_line(messages)}"[:LONGEST]

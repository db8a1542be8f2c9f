"""A winner that the sanitizers find fault with is none."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from made import Make

from warpsmith.processes.buffers import Scratch
from warpsmith.profile.demote import demote, sanitize_winner
from warpsmith.profile.sanitizer import Finding, SanitizerReport
from warpsmith.records import Result
from warpsmith.targets.cpu import CpuTarget
from warpsmith.testing import scripted_result

COPY = "for (int64_t i = 0; i < in0_numel; i++) out0[i] = in0[i];"
SPY = COPY + "volatile float y = in0[in0_numel]; (void)y;"


@pytest.mark.parametrize(("body", "status"), [(COPY, "ok"), (SPY, "incorrect")])
def test_a_confirmed_win_is_checked(
    body: str, status: str, make: Make, target: CpuTarget, scratch: Scratch
) -> None:
    made, said = make(body, shapes=((4, 9),)), []
    judge = SimpleNamespace(
        task=made.task,
        target=target,
        evidence=made.evidence,
        scratch=scratch,
        seed=1,
        progress=said.append,
        device_lock=None,
    )
    result = sanitize_winner(scripted_result(made.candidate, 2.0), made.candidate, judge)  # type: ignore[arg-type]
    assert (result.status, result.win) == (status, status == "ok")
    assert result.verdict is not None
    assert "sanitizers: address" in result.verdict.isolation
    assert said
    Result.model_validate_json(result.model_dump_json())  # as the archive reads it back


def test_what_is_no_win_is_left_alone(make: Make) -> None:
    made = make(COPY)
    for outcome in (0.5, "incorrect"):
        result = scripted_result(made.candidate, outcome)
        assert sanitize_winner(result, made.candidate, None) is result  # type: ignore[arg-type]


def test_findings_become_failed_checks(make: Make) -> None:
    finding = Finding(tool="memcheck", variant="ragged", region="r", message="Invalid __global__ read")
    found = demote(
        scripted_result(make(COPY).candidate, 2.0), SanitizerReport(findings=(finding,), ran=("memcheck",))
    )
    assert found.verdict is not None
    assert found.verdict.failed is not None
    assert (found.verdict.failed.rule, found.verdict.failed.variant) == ("sanitizer-memcheck", "ragged")
    assert "Invalid __global__ read" in found.reason
    missing = demote(
        scripted_result(make(COPY).candidate, 2.0), SanitizerReport(not_available=("sanitizers: none",))
    )
    assert missing.win
    assert missing.verdict is not None
    assert "sanitizers: none" in missing.verdict.isolation

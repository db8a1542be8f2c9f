"""The chain of a run: hypothesis, evidence, result, what was learnt, next hypothesis; the same in every format."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from sample import RUN, RunMaker, winning_run
from test_report import plain

from warpsmith.archive import Archive
from warpsmith.records import Candidate, Profile, RegionProfile
from warpsmith.report import build_report, render
from warpsmith.report.chain import TITLE

UNEVEN = "its 2 threads share the work unevenly: on average one is busy 55% of the time of the busiest"


def profile(candidate: Candidate, us: float, share: float, balance: float) -> Profile:
    unit = candidate.units[0]
    seen = RegionProfile(
        region=unit.region.id, seconds=us * 1e-6, least_bytes=33_554_432, flops=25_165_824, limit_share=share,
        bottleneck="memory", family="softmax", technique=unit.technique, values=unit.values, threads=2,
        balance=balance, register_bits=512, vector_bits=512, vector_share=0.9,
    )  # fmt: skip
    return Profile(regions=(seen,))


@pytest.fixture(scope="module")
def reasoned(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    """Three rounds: passes that share work badly, smaller tasks because of that, and then the limit."""
    archive = Archive(tmp_path_factory.mktemp("chain") / "a.db")
    run = RunMaker(archive)
    run.note()
    first = run.candidate("three-pass", 2)
    run.timed(first, 2050, profile=profile(first, 1990, 0.65, 0.55))
    run.failed(run.candidate("low-degree exp"), "incorrect", "budget on large inputs: error 7.2")
    because = (f"three-pass: {UNEVEN}; therefore smaller tasks",)
    second = run.candidate("small tasks", 2, (first,), "rewrite", round=1, evidence=because)
    run.timed(second, 1600, profile=profile(second, 1540, 0.85, 0.97))
    tuned = run.candidate("small tasks", 4, (second,), "tune", round=2, evidence=because)
    run.timed(tuned, 1420, profile=profile(tuned, 1400, 0.94, 0.98))
    slower = run.candidate("streamed", 2, (tuned,), "rewrite", round=2, evidence=("stores read lines",))
    run.timed(slower, 1700, profile=profile(slower, 1650, 0.8, 0.98))
    run.timed(tuned, 1428, confirmed=True)
    run.finish(tuned, 1428)
    return archive


def test_each_hypothesis_is_one_step_with_what_it_led_to(reasoned: Archive) -> None:
    one, wrong, two, three = build_report(reasoned).chain
    assert [s.round for s in (one, wrong, two, three)] == [0, 0, 1, 2]
    assert one.next == wrong.next == (3,)
    assert two.next == (4,)
    assert three.next == ()
    assert one.judged == {"ok": 1}
    assert two.judged == {"ok": 2}  # its tuning is part of it; the confirmation is not
    assert (two.candidate, two.measured.median) == (4, pytest.approx(1890 / 1420))


def test_what_was_learnt_is_what_the_profile_says(reasoned: Archive) -> None:
    one, wrong, two, three = build_report(reasoned).chain
    assert one.learnt[0] == "the first that is correct"
    assert UNEVEN in one.learnt
    assert wrong.learnt == ("incorrect: budget on large inputs: error 7.2",)
    assert wrong.measured is None
    assert re.fullmatch(r"surely at 1\.\d\d×, more than anything before it \(0\.\d\d×\)", two.learnt[0])
    assert any("94% of its limit" in text and "nothing left to gain" in text for text in two.learnt)
    assert two.learnt[-1] == "fastest at UNROLL=4"
    assert re.fullmatch(r"surely at 1\.\d\d×, no more than the best before it \(1\.\d\d×\)", three.learnt[0])


def test_evidence_is_told_once(reasoned: Archive) -> None:
    one, wrong, *_ = build_report(reasoned).chain
    assert one.evidence[0] == "the region takes 96% of the time"
    assert wrong.evidence == ()


@pytest.mark.parametrize("format", ["text", "markdown", "html"])
def test_every_format_prints_the_chain_in_order(reasoned: Archive, format: str) -> None:
    text = plain(render(reasoned, RUN, format), format)
    order = [
        TITLE, "three-pass for softmax, scale (round 0, seed, memory-bound, promises 1.35×)",
        "it reaches 59% of the measured 25.6 GB/s", "1 ok; fastest #1: 0.92×", "over torch.compile",
        UNEVEN, "step 3", "small tasks for softmax, scale (round 1, rewrite",
        f"three-pass: {UNEVEN}; therefore smaller tasks", "2 ok; fastest #4: 1.33×",
        "nothing left to gain there", "step 4", "multi-pass for softmax, scale (round 2",
    ]  # fmt: skip
    at = text.index(TITLE)
    for wanted in order:
        found = text.find(wanted, at)
        assert found >= 0, f"{wanted!r} is not in the {format} after {text[at - 80 : at]!r}"
        at = found


def test_a_run_from_before_there_were_profiles_teaches_by_its_speed(tmp_path: Path) -> None:
    steps = build_report(winning_run(tmp_path / "a.db")).chain
    assert all(s.learnt for s in steps)
    assert {s.operator for s in steps} >= {"seed", "rewrite", "crossover"}
    assert not any("of its limit" in text for s in steps for text in s.learnt)

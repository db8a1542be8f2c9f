"""Models are told of a screened candidate what it is: an estimate, no speedup and no proof that it is right."""

from __future__ import annotations

from warpsmith.agents.base import Attempt
from warpsmith.agents.llm.memory import Sample, has_ended
from warpsmith.agents.llm.synthesis import outcome_text
from warpsmith.agents.llm.telling import describe_outcome, standing_text
from warpsmith.agents.llm.translation import translation
from warpsmith.testing import chain_candidate, scripted_result, scripted_screening

CANDIDATE = chain_candidate("a")
(UNIT,) = CANDIDATE.units
SCREENED = Attempt(CANDIDATE, scripted_screening(CANDIDATE, 1.5))
JUDGED = Attempt(CANDIDATE, scripted_result(CANDIDATE, 1.5))
WRONG = Attempt(CANDIDATE, scripted_result(CANDIDATE, "incorrect"))


def test_an_estimate_is_called_one() -> None:
    assert describe_outcome(SCREENED) == "right where screening looked, an estimate of 1.50x of eager"
    assert describe_outcome(JUDGED) == "correct, 66.7 us, 1.50x of eager (1.47 to 1.53)"
    assert "incorrect" in describe_outcome(WRONG)
    assert "estimate" in outcome_text(SCREENED)
    assert "us alone" in standing_text(SCREENED, UNIT)
    assert "estimate" in standing_text(SCREENED, UNIT)
    assert "estimate" not in standing_text(JUDGED, UNIT)


def test_only_a_verdict_counts_as_a_correct_answer() -> None:
    samples = [Sample(round=0, region=UNIT.region.id, unit=UNIT.code_key, first=True)]
    screened, judged = translation(samples, [SCREENED]), translation(samples, [JUDGED])
    assert screened is not None
    assert judged is not None
    assert (screened.correct, screened.initial_speedup) == (0, 0.0)
    assert (judged.correct, judged.initial_speedup) == (1, 1.5)


def test_a_repair_that_passes_screening_ended_its_failure() -> None:
    assert has_ended("incorrect: budget", SCREENED)
    assert not has_ended("incorrect: budget", WRONG)

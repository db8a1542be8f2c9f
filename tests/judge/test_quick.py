"""A quick search looks at the main shapes only; a confirmation looks at everything all the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from test_judge import GOOD, TASK, candidate

pytestmark = [pytest.mark.slow, pytest.mark.alone]


def test_what_is_wrong_at_other_shapes_is_never_confirmed(open_judge: Callable[..., Any]) -> None:
    with open_judge(TASK, quick=True) as judge:
        special = candidate(judge, f"in0_numel == 335 ? 0 : {GOOD}")
        (found,) = judge.evaluate([special])
        assert (found.status, [b.variant for b in found.builds]) == ("ok", ["main"])
        assert found.timing.unit_us == {}, "no unit is timed alone in a hurry"
        confirmed = judge.confirm(special)
        assert (confirmed.status, confirmed.verdict.failed.variant) == ("incorrect", "ragged")


def test_baselines_are_started_anew_only_after_a_search(open_judge: Callable[..., Any]) -> None:
    told: list[str] = []
    with open_judge(TASK, quick=True, progress=told.append) as judge:
        good, old = candidate(judge, GOOD), judge.bench.pool.timings["eager"]
        for searched in (False, True):
            assert not searched or next(judge.evaluate([good])).status == "ok"
            assert judge.confirm(good).timing.confirmed
            assert ("starting fresh baselines" in told) == searched
            assert (judge.bench.pool.timings["eager"] is not old) == searched

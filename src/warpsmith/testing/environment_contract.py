"""The contract of the environment: in this process, over HTTP and in an adapter of yours, the same actions earn the same rewards.

Subclass `EnvironmentContract`, say how to open an environment on a service that judges by formula (`ScriptedAuthorSession`), and pytest runs it.
"""

from __future__ import annotations

import pytest

from ..authoring.actions import Action, Schedule
from ..authoring.answers import Answer
from ..environment import Environment, Scorable
from .scripted_author import ScriptedAuthorSession, write_scripted_solution, write_scripted_unit


def write_unit_action(outcome: float | str) -> Action:
    """Write a scripted unit as an action."""
    return Action(units=(Answer(source=write_scripted_unit(outcome), region="all"),))


class EnvironmentContract:
    """Beside it must be the fixture `environment`: an `Environment` on the task of a scripted service. Rewards are those of the default weights."""

    def test_faster_is_worth_more(self, environment: Environment) -> None:
        for write in (write_scripted_solution, write_unit_action):
            fast, slow, slower = environment.score_batch([write(o) for o in (4.0, 1.5, 0.8)])
            assert fast.reward > slow.reward > 0 > slower.reward
            assert all(r.right for r in (fast, slow, slower))

    def test_failures_are_told_apart_and_never_pay(self, environment: Environment) -> None:
        slowest, wrong, not_built, cheat = environment.score_batch(
            [write_unit_action(o) for o in (0.01, "incorrect", "build-failed", "invalid")]
        )
        assert 0 > slowest.reward > wrong.reward > not_built.reward > cheat.reward
        assert [r.cheating for r in (wrong, not_built, cheat)] == [False, False, True]

    def test_a_cheating_solution_gets_the_least(self, environment: Environment) -> None:
        right, wrong, cheat = environment.score_batch(
            [write_scripted_solution(o) for o in (2.0, "incorrect", "invalid")]
        )
        assert right.reward > 0 > wrong.reward > cheat.reward
        assert cheat.cheating

    @pytest.mark.parametrize("label", ["none", "library", "algorithmic", "unexplained"])
    def test_speed_without_work_of_its_own_does_not_pay(self, environment: Environment, label: str) -> None:
        reward = environment.score(write_scripted_solution(9.0, label))
        assert reward.right
        assert reward.reward < 0
        assert "speed" not in reward.parts

    def test_what_is_no_kernel_is_a_reward_and_no_error(self, environment: Environment) -> None:
        actions: list[Scorable] = [
            "I cannot help with that.",
            "",
            "```python\nclass ModelNew(\n```",
            Action(),
            Schedule(technique="magic"),
        ]
        for reward in environment.score_batch(actions):
            assert reward.status == "malformed"
            assert reward.reward < 0
            assert len(reward.reason.splitlines()) == 1

    def test_rewards_come_in_order_and_carry_their_evidence(self, environment: Environment) -> None:
        outcomes: list[float | str] = [1.2, "incorrect", 3.0]
        rewards = environment.score_batch([write_scripted_solution(o) for o in outcomes])
        assert [r.status for r in rewards] == ["correct", "incorrect", "correct"]
        assert rewards[2].ratio is not None
        assert rewards[2].ratio.low < rewards[2].ratio.median == 3.0
        assert "budget" in rewards[1].evidence[0]
        for reward in rewards:
            assert reward.job
            assert reward.hardware
            assert reward.reward == pytest.approx(sum(reward.parts.values()))

    def test_equal_actions_are_judged_once(self, environment: Environment) -> None:
        before = ScriptedAuthorSession.screened, ScriptedAuthorSession.solutions
        repeated: list[Scorable] = [write_unit_action(2.1), write_scripted_solution(2.1)] * 2
        first, second, third, fourth = environment.score_batch(repeated)
        assert (first.reward, second.reward) == (third.reward, fourth.reward)
        assert (before[0] + 1, before[1] + 1) == (
            ScriptedAuthorSession.screened,
            ScriptedAuthorSession.solutions,
        )

    def test_a_policy_sees_the_task_and_its_attempts_and_nothing_of_the_judge(
        self, environment: Environment
    ) -> None:
        before = environment.reset()
        assert before.inputs
        assert before.outputs
        assert before.machine
        environment.score(write_scripted_solution("incorrect"))
        after = environment.observe()
        assert after.model_copy(update={"attempts": (), "baselines": {}}) == before.model_copy(
            update={"baselines": {}}
        )
        assert "incorrect" in after.attempts[0]
        assert "0.75" not in after.attempts[0]  # a value of the judge's inputs


__all__ = ["EnvironmentContract", "write_unit_action"]

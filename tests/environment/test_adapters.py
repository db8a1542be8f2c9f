"""Every adapter asks the one core, in the calling convention of its trainer, and no cheat earns a positive reward through any of them."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from warpsmith import environment as package
from warpsmith.environment import Environment, Scorer, from_variables
from warpsmith.environment.trl import KernelTool, make_reward
from warpsmith.errors import UsageError
from warpsmith.testing import write_scripted_solution

FOLDER = Path(package.__file__).parent
RIGHT, WRONG, CHEAT = (write_scripted_solution(o) for o in (3.0, "incorrect", "invalid"))


def load_by_path(name: str) -> ModuleType:
    """Load a file as verl and OpenRLHF do."""
    spec = importlib.util.spec_from_file_location("custom_module", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ask_trl(scorer: Scorer, spec: str, text: str) -> float:
    chat = [[{"role": "assistant", "content": f"Here:\n```python\n{text}```"}]]
    return make_reward(scorer)(completions=chat, task=[spec], prompts=["?"], trainer_state=None)[0]


def ask_tool(scorer: Scorer, spec: str, text: str) -> float:
    tool = KernelTool(scorer)
    assert "Make this module faster" in tool.reset(task=spec, prompt="?")
    assert "tries left" in tool.submit(text)
    return tool.get_reward()


def ask_verl(scorer: Scorer, spec: str, text: str) -> float:
    return load_by_path("verl").compute_score("kernels", text, spec, {"split": "train"})


def ask_openrlhf(scorer: Scorer, spec: str, text: str) -> float:
    answer: dict[str, Any] = load_by_path("openrlhf").reward_func([f"Write.{text}"], ["Write."], [spec])
    assert set(answer) == {"rewards", "scores", "extra_logs"}
    return float(answer["rewards"][0])


@pytest.mark.parametrize("ask", [ask_trl, ask_tool, ask_verl, ask_openrlhf])
def test_adapters_give_the_rewards_of_the_core(
    ask: Callable[[Scorer, str, str], float], scorer: Scorer, spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from_variables.find_scorer.cache_clear()
    monkeypatch.setattr(from_variables, "make_scorer", lambda **settings: scorer)
    batches = []
    score_many = scorer.score_many
    monkeypatch.setattr(scorer, "score_many", lambda *a: batches.append(a) or score_many(*a))
    rewards = [ask(scorer, spec, text) for text in (RIGHT, WRONG, CHEAT)]
    from_variables.find_scorer.cache_clear()
    assert rewards == pytest.approx(
        [r.reward for r in score_many([spec] * 3, [RIGHT, WRONG, CHEAT])], abs=1e-5
    )
    assert rewards[0] > 0 > rewards[1] > rewards[2]
    assert len(batches) == 3


def test_gymnasium_checks_the_schedules(environment: Environment) -> None:
    pytest.importorskip("gymnasium")
    from gymnasium.utils.env_checker import check_env

    from warpsmith.environment.gym import ScheduleEnv

    env = ScheduleEnv(environment, tries=2)
    check_env(env, skip_render_check=True)
    _, info = env.reset(seed=1)
    sizes = env.action_space.nvec
    assert len(info["action_mask"]) == sum(sizes)
    env.step(np.zeros(len(sizes), np.int64))
    _, earned, ended, _, info = env.step(np.zeros(len(sizes), np.int64))
    assert not ended
    assert (info["reward"].status, info["reward"].reward) == ("screened", earned)
    assert env.action_masks()[: sizes[0]].all()


def test_variables_choose_what_is_confirmed(scorer: Scorer, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(from_variables, "make_scorer", lambda **settings: asked.append(settings) or scorer)
    for value in ("all", "some"):
        from_variables.find_scorer.cache_clear()
        monkeypatch.setenv("WARPSMITH_REWARD_CONFIRM", value)
        if value == "all":
            from_variables.find_scorer()
        else:
            with pytest.raises(
                UsageError, match="WARPSMITH_REWARD_CONFIRM=some: give one of none, best, all"
            ):
                from_variables.find_scorer()
    from_variables.find_scorer.cache_clear()
    assert [settings["confirm"] for settings in asked] == ["all"]

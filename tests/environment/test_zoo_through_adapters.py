"""Cheats of the zoo through every adapter, on the real judge: none is paid, all adapters agree, and the evidence names the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("gymnasium")
pytest.importorskip("uvicorn")

from warpsmith.authoring import job_work
from warpsmith.authoring.service import AuthoringService
from warpsmith.config import Config
from warpsmith.environment import Reward, Scorer
from warpsmith.targets.front_matter import FIRST_LINE
from warpsmith.zoo.fixture import Fixture, load

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
ADAPTERS = {"core", "TRL reward function", "TRL environment", "Gymnasium", "HTTP", "verl", "OpenRLHF"}
AGREE = 1e-5  # between rewards as float64 and as float32
NO_GAIN = -0.42  # of an honest kernel that is right and as slow as one can be, with the longest of sources
HONEST = "softmax"
# One of each class: refused before it runs, wrong elsewhere than at the shape that is timed, out of bounds,
# caught in the act by the watch on its input, and right until it is timed.
CHEATS = ("forged_exit", "main_shape_only", "out_of_bounds", "first_row_only", "notebook_beside_input")
FIXTURES = {f.name: f for f in load(("cpp",)) if f.name in (HONEST, *CHEATS)}
TASK = str(FIXTURES[HONEST].task_file)
Opened = tuple[Scorer, Mapping[str, Callable[[str, str], float]]]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory, with_peaks: Callable[..., Path]) -> Iterator[Opened]:
    """The core and all adapters on one service, whose judge is opened once."""
    folder = tmp_path_factory.mktemp("adapters")
    settings: dict[str, Any] = {
        "cache": with_peaks(folder / "cache"),
        "archive": folder / "archive.db",
        "baselines": ("eager",),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        # A crash or a noisy time would be judged again for each adapter, and a time never comes out the same.
        patch.setattr(job_work, "lasting", lambda result: True)
        from environment_adapters import open_adapters

        with AuthoringService(Config(**settings)) as service, open_adapters(service, "verdict") as adapters:
            yield adapters


def ask(opened: Opened, text: str) -> tuple[Reward, dict[str, float]]:
    from environment_adapters import ask_all

    core, adapters = opened
    task = core.author.open_task(TASK).task
    rewards = ask_all(adapters, task, text)
    assert set(rewards) == ADAPTERS
    return core.score(task, text), rewards


def expect_agreement(reward: Reward, rewards: Mapping[str, float]) -> None:
    assert rewards == pytest.approx(dict.fromkeys(rewards, reward.reward), abs=AGREE)


@pytest.mark.slow
@pytest.mark.parametrize("fixture", [FIXTURES[name] for name in CHEATS], ids=lambda f: f.name)
def test_no_adapter_pays_a_cheat(fixture: Fixture, opened: Opened) -> None:
    reward, rewards = ask(opened, fixture.source())
    expect_agreement(reward, rewards)
    assert max(rewards.values()) < NO_GAIN
    assert reward.status in fixture.statuses
    assert fixture.words in reward.reason
    assert reward.evidence
    assert not reward.right


@pytest.mark.slow
def test_an_honest_answer_is_worth_more_than_a_cheat_through_every_adapter(opened: Opened) -> None:
    honest = FIXTURES[HONEST].source()
    mistaken = honest.replace("return EXP;", "return EXP + 0.5f;")
    assert mistaken.startswith(FIRST_LINE)
    assert mistaken != honest
    right, right_rewards = ask(opened, honest)
    wrong, wrong_rewards = ask(opened, mistaken)
    expect_agreement(right, right_rewards)
    expect_agreement(wrong, wrong_rewards)
    assert (right.status, right.right) == ("ok", True)
    assert (wrong.status, wrong.right) == ("incorrect", False)
    assert min(right_rewards.values()) >= NO_GAIN > max(wrong_rewards.values())

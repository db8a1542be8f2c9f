"""Episodes over OpenEnv's own client and a real socket, on the real judge: rewards, feedback, the end, the state."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest
import uvicorn
from openenv.core import GenericEnvClient
from warpsmith_openenv import app as module

from warpsmith.config import Config
from warpsmith.environment import Scorer, make_scorer
from warpsmith.environment.from_variables import find_scorer
from warpsmith.zoo.fixture import load

FIXTURES = {f.name: f for f in load(("cpp",)) if f.name in ("softmax", "forged_exit")}
TASK = str(FIXTURES["softmax"].task_file)
ANSWER_SECONDS = 120.0


@pytest.fixture(scope="module")
def scorer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scorer]:
    folder = tmp_path_factory.mktemp("openenv")
    config = Config(cache=folder / "cache", archive=folder / "archive.db", baselines=("eager",))
    with make_scorer(config=config, mode="verdict") as opened:
        yield opened


@pytest.fixture(scope="module")
def url(scorer: Scorer) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WARPSMITH_TASKS", f"{TASK},softmax_middle")
        patch.setenv("WARPSMITH_TRIES", "2")
        patch.setenv("WARPSMITH_FORM", "unit")
        patch.setattr(module, "find_scorer", lambda: scorer)
        server = uvicorn.Server(uvicorn.Config(module.app, port=0, log_level="warning"))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        deadline = time.monotonic() + ANSWER_SECONDS
        while not server.started and time.monotonic() < deadline:
            time.sleep(0.05)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        server.should_exit = True
        thread.join(10)


def open_client(url: str) -> GenericEnvClient:
    return GenericEnvClient(base_url=url, message_timeout_s=ANSWER_SECONDS)


def test_an_episode_rewards_as_the_core_does_and_ends_after_its_tries(url: str, scorer: Scorer) -> None:
    honest, cheat = FIXTURES["softmax"].source(), FIXTURES["forged_exit"].source()
    with open_client(url).sync() as client:
        begun = client.reset(task=TASK)
        assert "softmax" in begun.observation["prompt"]
        assert begun.observation["tries_left"] == 2
        first = client.step({"source": f"Here it is.\n```cpp\n{cheat}\n```"})
        assert not first.done
        assert first.reward == scorer.score(TASK, cheat).reward == -1.0
        assert first.observation["status"] == "refused"
        second = client.step({"source": honest})
        assert second.done
        assert second.observation["right"]
        assert second.observation["feedback"].startswith("ok: ")
        assert second.reward > first.reward
        third = client.step({"source": honest})
        assert (third.done, third.reward) == (True, None)
        state = client.state()
    assert (state["step_count"], state["task"]) == (2, TASK)
    assert [r["reward"] for r in state["rewards"]] == [first.reward, second.reward]
    assert "exit" in state["rewards"][0]["evidence"][0]


def test_what_a_policy_sees_of_a_wrong_kernel_has_no_values_and_the_state_has_them(url: str) -> None:
    wrong = FIXTURES["softmax"].source().replace("return EXP;", "return EXP + 0.5f;")
    with open_client(url).sync() as client:
        client.reset(task=TASK)
        step = client.step({"source": wrong})
        state = client.state()
    assert step.reward < -0.42
    (reward,) = state["rewards"]
    assert "worst at" in reward["evidence"][0]
    assert "worst at" not in str(step.observation)
    assert step.observation["feedback"].startswith("incorrect")


def test_sessions_are_apart(url: str) -> None:
    with open_client(url).sync() as one, open_client(url).sync() as other:
        one.reset(task=TASK)
        other.reset(task=TASK)
        one.step({"source": FIXTURES["forged_exit"].source()})
        assert (one.state()["step_count"], other.state()["step_count"]) == (1, 0)


def test_a_seed_chooses_the_task_and_another_task_is_refused(scorer: Scorer) -> None:
    environment = module.KernelEnvironment(scorer, [TASK, "softmax_middle", "relu"])
    names = {seed: environment.reset(seed=seed).task for seed in (1, 2, 3, 1)}
    assert environment.reset(seed=2).task == names[2]
    with pytest.raises(module.UsageError, match="none of this environment's tasks"):
        environment.reset(task="/etc/passwd")


def test_a_wrong_setting_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPSMITH_TASKS", "")
    find_scorer.cache_clear()
    ended = subprocess.run(
        [sys.executable, "-m", "warpsmith_openenv.app"],
        capture_output=True,
        text=True,
        timeout=ANSWER_SECONDS,
        check=False,
    )
    assert ended.returncode == 2
    assert ended.stderr.splitlines() == [
        "warpsmith-openenv: WARPSMITH_TASKS: name the tasks that episodes are about, with commas between them"
    ]

"""Rollouts of verifiers against a scripted model behind a real socket, rewarded by the real judge."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import verifiers.v1 as vf
from aiohttp import web
from warpsmith_verifiers import KernelsEnv, KernelsHarness
from warpsmith_verifiers import tasks as module
from warpsmith_verifiers.environment import KernelsEnvConfig

from warpsmith.config import Config
from warpsmith.environment import Scorer, make_scorer
from warpsmith.zoo.fixture import load

ID = "warpsmith-verifiers"
FIXTURES = {f.name: f for f in load(("cpp",)) if f.name in ("softmax", "forged_exit")}
TASK = str(FIXTURES["softmax"].task_file)
HONEST, CHEAT = FIXTURES["softmax"].source(), FIXTURES["forged_exit"].source()
WRONG = HONEST.replace("return EXP;", "return EXP + 0.5f;")


@pytest.fixture(scope="module")
def scorer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scorer]:
    folder = tmp_path_factory.mktemp("verifiers")
    config = Config(cache=folder / "cache", archive=folder / "archive.db", baselines=("eager",))
    with make_scorer(config=config, mode="verdict") as opened, pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "find_scorer", lambda: opened)
        patch.setenv("NO_KEY", "none")
        yield opened


class ScriptedModel:
    """An OpenAI-compatible server that gives scripted answers and keeps what it was asked."""

    def __init__(self, answers: list[str]) -> None:
        self.answers, self.requests = list(answers), list[list[dict[str, Any]]]()

    async def complete(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.requests.append(body["messages"])
        text = f"Here:\n```cpp\n{self.answers.pop(0)}\n```"
        return web.json_response({
            "id": f"answer-{len(self.requests)}", "object": "chat.completion", "created": 1, "model": body["model"],
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        })  # fmt: skip

    async def start(self) -> tuple[web.AppRunner, str]:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self.complete)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        return runner, f"http://127.0.0.1:{runner.addresses[0][1]}/v1"


def play(answers: list[str], turns: int = 1) -> tuple[vf.Episode, ScriptedModel]:
    """Play one rollout on the task."""
    model = ScriptedModel(answers)

    async def run() -> vf.Episode:
        runner, url = await model.start()
        try:
            taskset = {"id": ID, "tasks": [TASK], "form": "unit"}
            env = vf.load_environment(KernelsEnvConfig.model_validate({"taskset": taskset, "turns": turns}))
            assert type(env) is KernelsEnv
            client = vf.EvalClientConfig(base_url=url, api_key_var="NO_KEY")
            context = vf.ModelContext(model="scripted", client=client)
            async with env.serving():
                (task,) = env.taskset
                return await env.run_episode(task, context)
        finally:
            await runner.cleanup()

    episode = asyncio.run(run())
    assert episode.ok, [*episode.errors, *(t.last_error for t in episode.traces)]
    assert not model.answers
    return episode, model


def test_the_packaged_harness_is_the_default() -> None:
    assert vf.default_harness_id(ID) == ID
    assert vf.import_harness(ID).KernelsHarness is KernelsHarness


@pytest.mark.parametrize(("answer", "status"), [(CHEAT, "refused"), (WRONG, "incorrect"), (HONEST, "ok")])
def test_a_rollout_of_one_turn_earns_what_the_core_gives(answer: str, status: str, scorer: Scorer) -> None:
    episode, model = play([answer])
    (trace,) = episode.traces
    reward = trace.rewards["judged"].score
    kept = trace.info["warpsmith"]
    assert (kept["status"], kept["reward"]) == (status, reward)
    assert trace.metrics["right"] == float(status == "ok")
    assert len(model.requests) == 1
    assert "softmax" in model.requests[0][-1]["content"]
    if status != "ok":  # a noisy time of a right one would be taken again
        assert reward == scorer.score(TASK, answer).reward < -0.42


def test_a_second_turn_is_told_the_outcome_without_values_and_the_last_answer_counts(scorer: Scorer) -> None:
    episode, model = play([WRONG, CHEAT], turns=2)
    (trace,) = episode.traces
    assert [len(messages) for messages in model.requests] == [1, 3]
    told = model.requests[1][-1]
    assert told["role"] == "user"
    assert told["content"].startswith("incorrect")
    assert "worst at" not in str(model.requests[1])
    assert "worst at" in scorer.score(TASK, WRONG).evidence[0]
    assert trace.rewards["judged"].score == -1.0
    assert trace.info["warpsmith"]["status"] == "refused"


def test_a_task_set_without_tasks_says_so() -> None:
    config = KernelsEnvConfig.model_validate({"taskset": {"id": ID}})
    with pytest.raises(ValueError, match="name the tasks"):
        list(vf.load_environment(config).taskset)

"""One answer through every adapter of the environment: what each pays for it.

In: a service with an open judge, or none yet, and how it rewards. Out: for each adapter a call (task, text) → reward. Trainers' shims
(verl, OpenRLHF) are loaded by their path and reach the service as they do in a cluster: by its HTTP face on the loopback address, with the
variables that they read. The others are in this process. The environment of Gymnasium has schedules for actions, which no cheat can be
written as: there the answer stands in for the schedule that an action means.
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import uvicorn

from warpsmith import environment as package
from warpsmith.authoring.author import LocalAuthor
from warpsmith.authoring.jobs import Confirm
from warpsmith.authoring.service import AuthoringService
from warpsmith.environment import (
    Environment,
    Reward,
    RewardMode,
    Scorer,
    from_variables,
    make_scorer,
    read_completion,
)
from warpsmith.environment.gym import ScheduleEnv
from warpsmith.environment.trl import KernelTool, make_reward
from warpsmith.serving.app import Limits, build_app
from warpsmith.serving.audit import AuditLog
from warpsmith.serving.running import Address, listen
from warpsmith.web.tokens import make_token

Ask = Callable[[str, str], float]
FOLDER = Path(package.__file__).parent
CLIENT = "trainer"
STOP_SECONDS = 10  # that the server may take to end
LIMITS = Limits(burst=10_000, per_second=1_000.0)


@contextmanager
def open_adapters(
    service: AuthoringService, mode: RewardMode, confirm: Confirm = "none"
) -> Iterator[tuple[Scorer, Mapping[str, Ask]]]:
    """Yield the core, and the adapters by name."""
    with ExitStack() as stack:
        core = Scorer(LocalAuthor(service), mode, confirm=confirm)
        url, token = stack.enter_context(serve(service))
        remote = stack.enter_context(make_scorer(server=url, token=token, mode=mode, confirm=confirm))
        stack.enter_context(set_variables(url, token, mode, confirm))
        yield (
            core,
            {
                "core": partial(ask_core, core),
                "TRL reward function": partial(ask_trl, core),
                "TRL environment": partial(ask_tool, core),
                "Gymnasium": partial(ask_gymnasium, core),
                "HTTP": partial(ask_core, remote),
                "verl": ask_verl,
                "OpenRLHF": ask_openrlhf,
            },
        )


@contextmanager
def serve(service: AuthoringService) -> Iterator[tuple[str, str]]:
    """Serve at a free port of the loopback address; yield the URL and a client's token."""
    with tempfile.TemporaryDirectory() as folder:
        listening, token, log = listen(Address(port=0)), make_token(), AuditLog(Path(folder) / "audit.jsonl")
        port = listening.getsockname()[1]
        app = build_app(service, {CLIENT: token}, Address(port=0).allow(port), log, LIMITS)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{port}", token
        finally:
            server.should_exit = True
            thread.join(STOP_SECONDS)
            log.close()


@contextmanager
def set_variables(url: str, token: str, mode: RewardMode, confirm: Confirm) -> Iterator[None]:
    """Set what `from_variables` reads, and forget the scorer that it opened."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "token"
        file.touch(0o600)
        file.write_text(token)
        values = {
            "WARPSMITH_SERVER": url, "WARPSMITH_TOKEN_FILE": str(file), "WARPSMITH_REWARD_MODE": mode,
            "WARPSMITH_REWARD_CONFIRM": confirm,
        }  # fmt: skip
        before = {name: os.environ.get(name) for name in values}
        os.environ.update(values)
        from_variables.find_scorer.cache_clear()
        try:
            yield
        finally:
            if from_variables.find_scorer.cache_info().currsize:
                from_variables.find_scorer().close()
            from_variables.find_scorer.cache_clear()
            for name, value in before.items():
                os.environ.pop(name)
                if value is not None:
                    os.environ[name] = value


def load_by_path(name: str) -> ModuleType:
    """Load an adapter's file as verl and OpenRLHF do."""
    spec = importlib.util.spec_from_file_location("custom_module", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ask_core(scorer: Scorer, task: str, text: str) -> float:
    return scorer.score(task, text).reward


def ask_trl(scorer: Scorer, task: str, text: str) -> float:
    chat = [[{"role": "assistant", "content": f"Here:\n```cpp\n{text}\n```"}]]
    return make_reward(scorer)(completions=chat, task=[task], prompts=["?"], trainer_state=None)[0]


def ask_tool(scorer: Scorer, task: str, text: str) -> float:
    tool = KernelTool(scorer, form="unit")
    tool.reset(task=task, prompt="?")
    tool.submit(text)
    return tool.get_reward()


class AnswerEnv(ScheduleEnv):
    """The Gymnasium environment, where the judge gets `answer` in place of the schedule of an action."""

    answer = ""

    def read_schedule(self, action: np.ndarray) -> Any:
        return read_completion(self.answer)


def ask_gymnasium(scorer: Scorer, task: str, text: str) -> float:
    env = AnswerEnv(Environment(task, scorer=scorer), tries=1)
    env.answer = text
    env.reset(seed=0)
    action = np.zeros(env.action_space.shape, np.int64)
    env.step(action)
    _, earned, ended, _, info = env.step(action)
    reward: Reward = info["reward"]
    assert ended
    assert reward.reward == earned
    return float(earned)


def ask_verl(task: str, text: str) -> float:
    return float(load_by_path("verl").compute_score("kernels", text, task, {"split": "train"}))


def ask_openrlhf(task: str, text: str) -> float:
    answer: dict[str, Any] = load_by_path("openrlhf").reward_func([f"Write.{text}"], ["Write."], [task])
    return float(answer["rewards"][0])


def ask_all(adapters: Mapping[str, Ask], task: str, text: str) -> dict[str, float]:
    """Return the reward by each adapter."""
    return {name: ask(task, text) for name, ask in adapters.items()}


__all__ = ["ask_all", "load_by_path", "open_adapters", "serve"]

"""The core of the environment: tasks and actions in, rewards out, by score jobs of the authors' service, here or elsewhere.

In: names of tasks, actions. Out: `Reward`s in the same order. There is no second way to a judge: `LocalAuthor` is the service in this process,
`RemoteAuthor` that of a `warpsmith serve`; both get the same requests and give the same records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from ..authoring.actions import Action, Schedule, ScheduleOffer
from ..authoring.author import Author, LocalAuthor, expect_success, wait_for_end
from ..authoring.jobs import MAX_BATCH, Confirm, JobRequest, JobView
from ..authoring.observing import Observation, write_prompt
from ..authoring.service import AuthoringService
from ..config import Config
from ..errors import JudgeError, UsageError
from ..rewards.reward import Reward, RewardMode, RewardWeights
from .completions import read_completion

ATTEMPTS = 2  # at a batch whose judge was lost: a trusted process may have been killed for memory
AUTHOR = "policy"
Scorable = Action | Schedule | str  # text is read as a language model's answer


class Scorer:
    """A context manager, where `close` ends what it was made with. Usable from several threads."""

    def __init__(
        self, author: Author, mode: RewardMode = "screening", weights: RewardWeights | None = None, confirm: Confirm = "none",
        close: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        """`mode`: by which judgement rewards are given. `confirm`: in mode "screening", which of a batch's candidates are judged in full all
        the same: their rewards are those of the verdict.
        """
        self.author, self.mode, self.confirm = author, mode, confirm
        self.weights, self._close = weights or RewardWeights(), close

    def score(self, task: str, action: Scorable) -> Reward:
        """Reward one action. Raises TaskError, ToolchainError, JudgeError; a bad action is a reward, no error."""
        return self.score_many([task], [action])[0]

    def score_many(self, tasks: Sequence[str], actions: Sequence[Scorable]) -> list[Reward]:
        """Reward actions in order, each on the task beside it: a job a task, or several where there are many. Raises as `score` does."""
        if len(tasks) != len(actions):
            raise UsageError(f"{len(tasks)} tasks and {len(actions)} actions: give one task for each action")
        read = [read_action(action) for action in actions]
        positions: dict[str, list[int]] = {}
        for position, task in enumerate(tasks):
            positions.setdefault(task, []).append(position)
        batches = [
            (task, listed[start : start + MAX_BATCH])
            for task, listed in positions.items()
            for start in range(0, len(listed), MAX_BATCH)
        ]
        rewards: dict[int, Reward] = {}
        for task, batch in batches:
            rewards |= zip(
                batch, self._score_batch(task, [read[position] for position in batch]), strict=True
            )
        return [rewards[position] for position in range(len(read))]

    def observe(self, task: str) -> Observation:
        """Return what a policy may see of a task. Raises TaskError."""
        return self.author.observe(task)

    def close(self) -> None:
        """End the judge, or the connection. Safe to call twice."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _score_batch(self, task: str, actions: Sequence[Action]) -> Sequence[Reward]:
        request = JobRequest(
            kind="score", task=task, actions=tuple(actions), mode=self.mode, weights=self.weights, confirm=self.confirm, author=AUTHOR
        )  # fmt: skip
        for attempt in range(1, ATTEMPTS + 1):
            job = wait_for_end(self.author, self.author.submit(request))
            if job.error_kind != "JudgeError" or attempt == ATTEMPTS:
                break
        return _expect_rewards(expect_success(job), len(actions))


class Environment:
    """One task as an environment. A context manager."""

    def __init__(
        self, task: str, *, server: str | None = None, token: str | None = None, target: str = "cpu", config: Config | None = None,
        mode: RewardMode = "screening", weights: RewardWeights | None = None, confirm: Confirm = "none", scorer: Scorer | None = None,
    ) -> None:  # fmt: skip
        """`task`: the name of a suite's task, a file of KernelBench's form, or `archive:ID`. `server`, `token`: of a `warpsmith serve`;
        None: the judge is in this process. `scorer`: one that several environments share, which stays open. Raises UsageError.
        """
        self.task = task
        self._is_shared = scorer is not None
        self.scorer = scorer or make_scorer(
            server=server,
            token=token,
            target=target,
            config=config,
            mode=mode,
            weights=weights,
            confirm=confirm,
        )
        self.attempts: list[Reward] = []  # those of this environment, the oldest first

    def observe(self) -> Observation:
        """Return what a policy may see: the task, and what came of the attempts so far. Raises TaskError."""
        observation = self.scorer.observe(self.task)
        return observation.model_copy(update={"attempts": tuple(a.feedback for a in self.attempts)})

    def prompt(self, form: str = "solution") -> str:
        """Write the observation as text. `form`: "solution" or "unit": what is asked for."""
        return write_prompt(self.observe(), form)

    @property
    def schedules(self) -> tuple[ScheduleOffer, ...]:
        """The schedules that exist for this task."""
        return self.scorer.observe(self.task).schedules

    def score(self, action: Scorable) -> Reward:
        """Reward one action. Raises as `Scorer.score` does."""
        return self.score_batch([action])[0]

    def score_batch(self, actions: Sequence[Scorable]) -> list[Reward]:
        """Reward actions in order, in one batch where it is not too large."""
        rewards = self.scorer.score_many([self.task] * len(actions), actions)
        self.attempts += rewards
        return rewards

    def reset(self) -> Observation:
        """Forget the attempts so far."""
        self.attempts = []
        return self.observe()

    def close(self) -> None:
        """End the judge, unless it is shared. Safe to call twice."""
        if not self._is_shared:
            self.scorer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def score(
    task: str, action: Scorable, *, mode: RewardMode = "screening", weights: RewardWeights | None = None, target: str = "cpu",
    config: Config | None = None, server: str | None = None, token: str | None = None,
) -> Reward:  # fmt: skip
    """Reward one action on a task; to reward several, open an `Environment`, which keeps its judge open. Raises as `Scorer.score` does."""
    with Environment(
        task, server=server, token=token, target=target, config=config, mode=mode, weights=weights
    ) as opened:
        return opened.score(action)


def make_scorer(
    *, server: str | None = None, token: str | None = None, target: str = "cpu", config: Config | None = None,
    mode: RewardMode = "screening", weights: RewardWeights | None = None, confirm: Confirm = "none",
) -> Scorer:  # fmt: skip
    """Open a scorer on a judge in this process, or with `server` and `token` elsewhere. Raises UsageError."""
    author, stack = open_author(server, token, target, config)
    return Scorer(author, mode, weights, confirm, stack.close)


def open_author(
    server: str | None = None, token: str | None = None, target: str = "cpu", config: Config | None = None
) -> tuple[Author, ExitStack]:
    """Return an author, and what closes it. Raises UsageError for a server without a token."""
    stack = ExitStack()
    if server is None:
        service = stack.enter_context(AuthoringService(config or Config.load(), target))
        return LocalAuthor(service), stack
    if not token:
        raise UsageError("a server needs the token that it knows you by")
    if config is not None:
        raise UsageError("the settings are the server's own: leave config out with a server")
    from ..serving import expect_extra

    expect_extra()
    from ..serving.client import RemoteAuthor

    return stack.enter_context(RemoteAuthor(server, token)), stack


def read_action(action: Scorable) -> Action:
    """Read text as a language model's answer, and a schedule as an action."""
    if isinstance(action, str):
        return read_completion(action)
    return Action(schedules=(action,)) if isinstance(action, Schedule) else action


def _expect_rewards(job: JobView, count: int) -> Sequence[Reward]:
    if len(job.rewards) != count:
        raise JudgeError(f"job {job.job_id} ended as {job.state} without rewards")
    return job.rewards


__all__ = ["Environment", "Scorable", "Scorer", "make_scorer", "open_author", "read_action", "score"]

"""Authors ask and tell here: what the command line and the MCP server share.

In: the settings, a target, and requests of authors. Out: views. Queries need no judge (`task_queries.py`); a
profile and a submission do, and come back as futures, since a judge takes half a minute to open. Usable
from several threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future

from .. import machine
from ..config import Config
from ..errors import UsageError
from ..pipeline import lasting
from ..processes.buffers import Scratch
from ..records import Candidate, Result, Task
from . import outcomes
from .answers import Answer, make_candidate
from .author_session import AuthorSession
from .author_views import NodeTime, ProfileView, VerdictView
from .describe import name_hardware
from .session_worker import IDLE_SECONDS, JudgeSessionWorker
from .task_queries import TaskQueries

BEST = "best"
KNOWN = "the same was judged before on this machine, with this outcome"
QUARANTINED = "the task is quarantined, so its numbers prove nothing"
MOST_NODES = 20
NO_GPU = (
    "judging for cuda needs an NVIDIA GPU here: tell it on a machine that has one, or pack the answers with "
    "`warpsmith bundle create --answers FOLDER`"
)


class AuthoringService(TaskQueries):
    """A context manager. Raises UsageError for a target that nobody registered, ArchiveError."""

    def __init__(
        self, config: Config, target: str = "cpu", progress: Callable[[str], None] = lambda text: None,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:  # fmt: skip
        super().__init__(config, target)
        self.stage = ""  # what the judge is doing now
        self._progress = progress
        self._scratch: Scratch | None = None
        self._worker: JudgeSessionWorker[AuthorSession] = JudgeSessionWorker(self._open, idle_seconds)

    def __enter__(self) -> AuthoringService:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the open judge. Safe to call twice."""
        self._worker.close()
        if self._scratch is not None:
            self._scratch.close()  # buffers of a judge that was still busy would outlive the program

    def expect_device(self) -> None:
        """Raises UsageError where this machine cannot judge for the target."""
        if self.target_name == "cuda" and machine.gpu() is None:
            raise UsageError(NO_GPU)

    def candidate(
        self, task: Task, answers: Sequence[Answer], *, onto: str = "", author: str = "", note: str = ""
    ) -> Candidate:
        """The answers as a candidate, `onto` a candidate's id or "best". Raises UsageError, one line."""
        return make_candidate(
            task, self.target_name, answers, onto=self._onto(task, onto), author=author, note=note
        )

    def submit(self, task: Task, candidate: Candidate) -> Future[VerdictView]:
        """Judge a candidate and keep the result. What was judged on this machine and would come out the same
        is not judged again.

        The future's error is a WarpsmithError where it is anybody's fault. Raises UsageError.
        """
        self.expect_device()
        earlier = self._find_known_result(task, candidate)
        if earlier is not None:
            done: Future[VerdictView] = Future()
            done.set_result(self._verdict(task, candidate, earlier, notes=(KNOWN,)))
            return done
        return self._worker.submit(task, lambda session: self._judge(session, candidate))

    def _judge(self, session: AuthorSession, candidate: Candidate) -> VerdictView:
        result = session.judge_candidate(candidate)
        why = session.judge.admission
        notes = () if why.admitted else (f"{QUARANTINED}: {'; '.join(why.reasons)}",)
        return self._verdict(session.task, candidate, result, notes, session.run_id)

    def _verdict(
        self, task: Task, candidate: Candidate, result: Result, notes: tuple[str, ...], run: str = ""
    ) -> VerdictView:
        return outcomes.view_verdict(
            task.name, candidate, result, name_hardware(self.target_name), notes, run
        )

    def _find_known_result(self, task: Task, candidate: Candidate) -> Result | None:
        """A win counts as known only once it was confirmed. The candidate is kept with its author all the same."""
        environment = machine.describe(self.config.compiler, self._device()).id
        result = self.archive.index_judged_results(task.id, self.target_name, environment).get(
            candidate.content_key
        )
        if result is None or not lasting(result):
            return None
        if result.win and not result.confirmed:
            return None
        self.archive.add_candidate(candidate)
        return result

    def profile(self, task: Task) -> Future[ProfileView]:
        """Measure where the reference's time goes; this opens the judge of the task."""
        self.expect_device()
        return self._worker.submit(task, self._build_profile)

    def _build_profile(self, session: AuthorSession) -> ProfileView:
        judge, task = session.judge, session.task
        slowest = sorted(judge.node_us.items(), key=lambda item: -item[1])[:MOST_NODES]
        best = self.board(task)[:3]
        candidates = [c for row in best if (c := self.archive.candidate(row.candidate)) is not None]
        results = [e.result for e in self._entries(task)]
        lines = [line for c in candidates for line in outcomes.describe_profiles(c, results)]
        return ProfileView(
            task=task.name, hardware=name_hardware(self.target_name), limit_us=judge.limit.seconds * 1e6,
            bound=judge.limit.bound, peaks=judge.limit.peaks, least_bytes=judge.limit.least_bytes, flops=judge.limit.flops,
            baselines={b.name: b.median_us for b in judge.baselines.values() if b.ok},
            nodes=tuple(NodeTime(node=n, op=task.graph.by_name[n].op, us=round(us, 2)) for n, us in slowest),
            units=tuple(dict.fromkeys(lines)),
            notes=() if judge.admission.admitted else ("quarantined", *judge.admission.reasons),
        )  # fmt: skip

    def _open(self, task: Task) -> AuthorSession:
        """In the worker's thread."""
        self._report_stage(f"opening the judge of {task.name}")
        self._scratch = Scratch()
        return AuthorSession(
            task, self._target(), self.config, self.archive, self._scratch, self._report_stage
        )

    def _report_stage(self, text: str) -> None:
        self.stage = text
        self._progress(text)

    def _onto(self, task: Task, onto: str) -> Candidate | None:
        if not onto:
            return None
        rows = self.board(task) if onto == BEST else []
        if onto == BEST and not rows:
            raise UsageError("there is no best candidate of this task yet: leave 'onto' empty")
        candidate = self.archive.candidate(rows[0].candidate if rows else onto)
        if candidate is None:
            raise UsageError(f"no candidate {onto[:40]!r} in {self.config.archive}")
        return candidate

"""The authors' service: one core behind the command line, the MCP server and HTTP.

In: the settings, a target, and requests of authors. Out: views. Queries need no judge (`task_queries.py`). What takes long is a job with an
id: submitted, kept in a journal, then polled or waited for. Whoever asks is named by an owner: the operator ("") sees all, a client what is
its own, shared, or nobody's. Usable from several threads.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from .. import machine
from ..archive.store import Archive
from ..config import Config
from ..errors import UsageError, WarpsmithError
from ..processes.buffers import Scratch
from ..records import Candidate, Task
from ..targets.target import Target
from .actions import Action, Entry, keep_solution, write_schedules
from .answers import make_candidate
from .author_session import AuthorSession
from .job_board import JobBoard
from .job_journal import EVERYBODY
from .job_work import JobWork
from .jobs import JobRequest, JobView, Submission
from .judge_pool import JudgePool
from .regions import propose_regions
from .session_worker import IDLE_SECONDS
from .task_queries import TaskQueries

MAX_WAITING = 64  # jobs of one owner that have not ended
MAX_STARTS = 20  # of one job whose service is killed again and again
WITHOUT_JUDGE = (
    "check",
    "inspect",
)  # kinds of jobs; the latter asks a GPU for its counters where there is one
CHECKS_AT_ONCE = 2
MAX_BUG_CHARACTERS = 400  # of an error that should not be
YIELDS_S = {"verdict": 20.0, "tune": 30.0}  # seconds by which quicker kinds of jobs may go first
WARMED_REGIONS = 2
WARM_UP_YIELDS_S = 1.0  # whatever is asked for meanwhile goes first
BEST = "best"
NO_GPU = (
    "judging for cuda needs an NVIDIA GPU here: tell it on a machine that has one (--server), or pack the answers with "
    "`warpsmith bundle create --answers FOLDER`"
)
OpenSession = Callable[[Task, Target, Config, Archive, Scratch, Callable[[str], None]], Any]


class AuthoringService(TaskQueries):
    """A context manager. Raises UsageError for a target that nobody registered, ArchiveError."""

    def __init__(
        self, config: Config, target: str = "cpu", progress: Callable[[str], None] = lambda text: None,
        idle_seconds: float = IDLE_SECONDS, most_open: int = 1, open_session: OpenSession | None = None,
    ) -> None:  # fmt: skip
        """`most_open`: tasks whose judges are kept open. `open_session`: what judges; tests pass one that needs no compiler."""
        super().__init__(config, target)
        self.stage = ""  # what a judge is doing now
        self._progress, self._open_session = progress, open_session or AuthorSession
        self._scratches: list[Scratch] = []
        self._pool: JudgePool[Any] = JudgePool(self._open, most_open, idle_seconds)
        self._checks = ThreadPoolExecutor(CHECKS_AT_ONCE, "check")

    @cached_property
    def job_board(self) -> JobBoard:
        return JobBoard(self.journal)

    def __enter__(self) -> AuthoringService:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End every judge; jobs that have not ended are for the next service. Safe to call twice."""
        self._checks.shutdown(wait=False, cancel_futures=True)
        self._pool.close()
        for scratch in self._scratches:
            scratch.close()  # buffers of a judge that was still busy would outlive the program

    def expect_device(self) -> None:
        """Raises UsageError where this machine cannot judge for the target."""
        if self.target_name == "cuda" and machine.gpu() is None:
            raise UsageError(NO_GPU)

    # -- jobs --------------------------------------------------------------------------------------

    def submit(self, request: JobRequest, owner: str = "") -> JobView:
        """Accept a job: from here on it is done, whatever becomes of who asked. Raises UsageError, TaskError."""
        if request.kind not in WITHOUT_JUDGE:
            self.expect_device()
        task = self.task(request.task, owner=owner)
        if self.journal.count_waiting(owner) >= MAX_WAITING:
            raise UsageError(f"{MAX_WAITING} jobs of yours have not ended: wait for some of them")
        candidates = self._collect_candidates(task, request, owner)
        _expect_candidates(request, candidates)
        entries = []
        for action in request.actions:
            entry, scheduled = self._read_action(task, action, request.author, owner)
            entries.append(entry)
            candidates += [c for c in scheduled if c.id not in {known.id for known in candidates}]
        job = JobView(
            job_id=secrets.token_hex(8), kind=request.kind, state="queued", task=f"archive:{task.id}", name=task.name,
            target=self.target_name, author=request.author, submitted_at=_now(),
            candidates=tuple(c.id for c in candidates), confirm=request.confirm, settings=request.settings,
            mode=request.mode, weights=request.weights, entries=tuple(entries),
        )  # fmt: skip
        self.archive.add_task(task)
        self._keep_candidates(candidates, owner, request.shared)
        accepted = self.journal.add(job, owner, request.key)
        if accepted.job_id == job.job_id:
            self._start(job, task, candidates)
        return accepted

    def job(self, job_id: str, wait_s: float = 0.0, owner: str = "") -> JobView:
        """The job as it is; with `wait_s`, once it has ended or grown a row, or after so many seconds. Raises UsageError."""
        self._expect_own(job_id, owner)
        return self.job_board.read(job_id, wait_s)

    def wait(self, job_id: str, seconds: float, owner: str = "") -> JobView:
        """The job once it has ended, or after so many seconds."""
        self._expect_own(job_id, owner)
        return self.job_board.wait_until_ended(job_id, seconds)

    def jobs(self, last: int = 20, owner: str = "") -> list[JobView]:
        """List jobs, newest first: the operator's view has everybody's."""
        return self.journal.list_jobs(owner or None, last)

    def cancel(self, job_id: str, owner: str = "") -> JobView:
        """Give a job up: what waits is not begun, what is judged now is judged to its end."""
        self._expect_own(job_id, owner)
        return self.job_board.cancel(job_id)

    def resume(self) -> int:
        """Go on with jobs whose service was killed; return how many. Results that are in the archive are not judged again."""
        jobs = self.journal.take_over(self.target_name)
        for job in jobs:
            task = self.archive.task(job.task.removeprefix("archive:"))
            candidates = [self.archive.candidate(c) for c in job.candidates]
            if task is None or None in candidates:
                self.job_board.finish(job, error="its task or a candidate is no longer in the archive")
            elif job.starts >= MAX_STARTS:
                self.job_board.finish(job, error=f"the service ended {job.starts} times while this job ran")
            else:
                self._start(job, task, [c for c in candidates if c is not None])
        return len(jobs)

    def candidate(
        self, task: Task, submission: Submission, *, author: str = "", owner: str = ""
    ) -> Candidate:
        """Make a candidate of what was handed in. Raises UsageError, one line."""
        return make_candidate(
            task, self.target_name, submission.units, onto=self._onto(task, submission.onto, owner), author=author,
            note=submission.note,
        )  # fmt: skip

    def _read_action(
        self, task: Task, action: Action, author: str, owner: str
    ) -> tuple[Entry, tuple[Candidate, ...]]:
        """Make an entry of an action, and its candidate. An action that cannot be judged is an entry with its problem."""
        length = action.length
        try:
            if [bool(action.solution), bool(action.units), bool(action.schedules)].count(True) != 1:
                raise UsageError("an action is a solution, units, or schedules: exactly one of them")
            if action.solution:
                return Entry(solution=keep_solution(action.solution, self.config.cache), length=length), ()
            if action.schedules:
                candidate = write_schedules(task, self.target_name, action.schedules, author)
            else:
                candidate = self.candidate(task, Submission(units=action.units), author=author, owner=owner)
        except UsageError as error:
            return Entry(problem=" ".join(str(error).split())[:MAX_BUG_CHARACTERS], length=length), ()
        return Entry(candidate=candidate.id, length=length), (candidate,)

    def _collect_candidates(self, task: Task, request: JobRequest, owner: str) -> list[Candidate]:
        candidates = [
            self.candidate(task, submission, author=request.author, owner=owner)
            for submission in request.submissions
        ]
        for name in request.candidates:
            candidate = self.read_candidate(name, owner)
            if candidate.task_id != task.id or candidate.target != self.target_name:
                raise UsageError(f"candidate {name} is of another task or target")
            candidates.append(candidate)
        return list({c.id: c for c in candidates}.values())

    def _keep_candidates(self, candidates: Sequence[Candidate], owner: str, shared: bool) -> None:
        """Keep candidates: those that a client brings are its own unless it shares them; others stay everybody's."""
        for candidate in candidates:
            is_there = self.archive.candidate(candidate.id) is not None
            if owner and (not is_there or self.journal.list_owners("candidate", candidate.id)):
                owners = [owner, *([EVERYBODY] if shared else [])]
                for name in owners:
                    self.journal.own("candidate", [candidate.id], name)
                    self.journal.own("source", [u.code_key for u in candidate.units], name)
            self.archive.add_candidate(candidate)

    def warm_up(self, task: Task) -> None:
        """Let the judge prepare for units of the regions that are proposed first, while the author writes them."""
        regions = propose_regions(task.graph, self.target_name)[:WARMED_REGIONS]
        self._pool.submit(task, lambda session: session.prepare_regions(regions), WARM_UP_YIELDS_S)

    def keep_child(self, parent: Candidate, child: Candidate) -> None:
        """Keep a candidate that is derived from another, for those who see that one."""
        for kind, ids in (("candidate", [child.id]), ("source", [u.code_key for u in child.units])):
            for owner in self.journal.list_owners("candidate", parent.id):
                self.journal.own(kind, ids, owner)  # type: ignore[arg-type]
        self.archive.add_candidate(child)

    def _start(self, job: JobView, task: Task, candidates: list[Candidate]) -> None:
        live = self.job_board.add(job)
        work = JobWork(self, live, task, candidates)
        future: Future[Any]
        counts = job.kind == "inspect" and self.target_name == "cuda" and machine.gpu() is not None
        if job.kind in WITHOUT_JUDGE and not counts:
            future = self._checks.submit(work.check if job.kind == "check" else work.inspect)
        else:
            yields_s = YIELDS_S.get(job.kind, 0.0)
            future = self._pool.submit(task, work.run, yields_s)
        live.future = future
        future.add_done_callback(lambda done: self._end_job(live.job.job_id, done))

    def _end_job(self, job_id: str, done: Future[Any]) -> None:
        """In the thread that did the work, or that cancelled it. A service that closes leaves the job to the next one."""
        if done.cancelled():
            return
        error = done.exception()
        if error is None:
            self.job_board.end(job_id, "", "")
        elif isinstance(error, WarpsmithError):
            self.job_board.end(job_id, " ".join(str(error).split()), type(error).__name__)
        else:
            text = f"this is a bug in warpsmith ({type(error).__name__}: {error})"[:MAX_BUG_CHARACTERS]
            self.job_board.end(job_id, text, "JudgeError")

    def owner_of(self, job_id: str) -> str:
        entry = self.journal.get(job_id)
        return entry[1] if entry is not None else ""

    def _expect_own(self, job_id: str, owner: str) -> None:
        entry = self.journal.get(job_id)
        if entry is None or (owner and entry[1] != owner):
            raise UsageError(f"no job {job_id[:40]!r}")

    # -- judges ------------------------------------------------------------------------------------

    def _open(self, task: Task) -> Any:
        """In the worker's thread."""

        def report_stage(text: str) -> None:
            self.stage = text
            self.job_board.tell_stage(f"archive:{task.id}", text)
            self._progress(text)

        report_stage(f"opening the judge of {task.name}")
        scratch = Scratch()
        self._scratches.append(scratch)
        return self._open_session(task, self.open_target(), self.config, self.archive, scratch, report_stage)

    def _onto(self, task: Task, onto: str, owner: str) -> Candidate | None:
        if not onto:
            return None
        if onto != BEST:
            return self.read_candidate(onto, owner)
        rows = self.board(task, owner)
        if not rows:
            raise UsageError("there is no best candidate of this task yet: leave 'onto' empty")
        return self.read_candidate(rows[0].candidate, owner)


def _expect_candidates(request: JobRequest, candidates: Sequence[Candidate]) -> None:
    if request.kind == "profile" and candidates:
        raise UsageError("a profile is of a task: name no candidates")
    if request.kind == "tune" and len(candidates) != 1:
        raise UsageError("tune takes one candidate")
    if bool(request.actions) is not (request.kind == "score"):
        raise UsageError("score takes at least one action, and no other kind of job takes any")
    if request.kind == "score" and candidates:
        raise UsageError("score takes actions: hand candidates in as their units")
    if request.kind not in ("profile", "tune", "score") and not candidates:
        raise UsageError(f"{request.kind} takes at least one candidate")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")

"""The desk where authors ask and tell: what the command line and the MCP server share.

In: the settings, a target, and requests of authors. Out: sheets. Looking needs no judge (`looking.py`); a
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
from .answers import Answer, candidate_of
from .describe import hardware
from .keeper import IDLE_SECONDS, JudgeKeeper
from .looking import Looking
from .sheets import NodeTime, ProfileSheet, VerdictSheet
from .sitting import Sitting

BEST = "best"
KNOWN = "the same was judged before on this machine, with this outcome"
QUARANTINED = "the task is quarantined, so its numbers prove nothing"
MOST_NODES = 20
NO_GPU = (
    "judging for cuda needs an NVIDIA GPU here: tell it on a machine that has one, or pack the answers with "
    "`warpsmith bundle create --answers FOLDER`"
)


class Desk(Looking):
    """A context manager. Raises UsageError for a target that nobody registered, ArchiveError."""

    def __init__(
        self, config: Config, target: str = "cpu", progress: Callable[[str], None] = lambda text: None,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:  # fmt: skip
        super().__init__(config, target)
        self.stage = ""  # what the judge is doing now
        self._progress = progress
        self._scratch: Scratch | None = None
        self._keeper: JudgeKeeper[Sitting] = JudgeKeeper(self._open, idle_seconds)

    def __enter__(self) -> Desk:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the open judge. Safe to call twice."""
        self._keeper.close()
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
        return candidate_of(
            task, self.target_name, answers, onto=self._onto(task, onto), author=author, note=note
        )

    def submit(self, task: Task, candidate: Candidate) -> Future[VerdictSheet]:
        """Judge a candidate and keep the result. What was judged on this machine and would come out the same
        is not judged again.

        The future's error is a WarpsmithError where it is anybody's fault. Raises UsageError.
        """
        self.expect_device()
        known = self._known(task, candidate)
        if known is not None:
            done: Future[VerdictSheet] = Future()
            done.set_result(self._verdict(task, candidate, known, notes=(KNOWN,)))
            return done
        return self._keeper.submit(task, lambda sitting: self._judged(sitting, candidate))

    def _judged(self, sitting: Sitting, candidate: Candidate) -> VerdictSheet:
        result = sitting.judged(candidate)
        why = sitting.judge.admission
        notes = () if why.admitted else (f"{QUARANTINED}: {'; '.join(why.reasons)}",)
        return self._verdict(sitting.task, candidate, result, notes, sitting.run_id)

    def _verdict(
        self, task: Task, candidate: Candidate, result: Result, notes: tuple[str, ...], run: str = ""
    ) -> VerdictSheet:
        return outcomes.verdict_sheet(task.name, candidate, result, hardware(self.target_name), notes, run)

    def _known(self, task: Task, candidate: Candidate) -> Result | None:
        """A win counts as known only once it was confirmed. The candidate is kept with its author all the same."""
        here = machine.describe(self.config.compiler, self._device()).id
        found = self.archive.judged_keys(task.id, self.target_name, here).get(candidate.content_key)
        if found is None or not lasting(found):
            return None
        if found.win and not (found.timing is not None and found.timing.confirmed):
            return None
        self.archive.add_candidate(candidate)
        return found

    def profile(self, task: Task) -> Future[ProfileSheet]:
        """Where the reference's time goes; opens the judge of the task."""
        self.expect_device()
        return self._keeper.submit(task, self._profiled)

    def _profiled(self, sitting: Sitting) -> ProfileSheet:
        judge, task = sitting.judge, sitting.task
        slowest = sorted(judge.node_us.items(), key=lambda item: -item[1])[:MOST_NODES]
        best = self.board(task)[:3]
        candidates = [c for row in best if (c := self.archive.candidate(row.candidate)) is not None]
        results = [e.result for e in self._entries(task)]
        lines = [line for c in candidates for line in outcomes.seen_of(c, results)]
        return ProfileSheet(
            task=task.name, hardware=hardware(self.target_name), limit_us=judge.limit.seconds * 1e6,
            bound=judge.limit.bound, least_bytes=judge.limit.least_bytes, flops=judge.limit.flops,
            baselines={b.name: b.median_us for b in judge.baselines.values() if b.ok},
            nodes=tuple(NodeTime(node=n, op=task.graph.by_name[n].op, us=round(us, 2)) for n, us in slowest),
            units=tuple(dict.fromkeys(lines)),
            notes=() if judge.admission.admitted else ("quarantined", *judge.admission.reasons),
        )  # fmt: skip

    def _open(self, task: Task) -> Sitting:
        """In the keeper's thread."""
        self._staged(f"opening the judge of {task.name}")
        self._scratch = Scratch()
        return Sitting(task, self._target(), self.config, self.archive, self._scratch, self._staged)

    def _staged(self, text: str) -> None:
        self.stage = text
        self._progress(text)

    def _onto(self, task: Task, onto: str) -> Candidate | None:
        if not onto:
            return None
        rows = self.board(task) if onto == BEST else []
        if onto == BEST and not rows:
            raise UsageError("there is no best candidate of this task yet: leave 'onto' empty")
        found = self.archive.candidate(rows[0].candidate if rows else onto)
        if found is None:
            raise UsageError(f"no candidate {onto[:40]!r} in {self.config.archive}")
        return found

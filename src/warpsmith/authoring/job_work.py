"""The work of one job: what a judge, or a compiler alone, does for it.

In: a job and its candidates. Out: rows of the job, each on disk before the next is begun. What the archive knows of a candidate on this
machine is taken from there, so a job that is done again after a kill judges nothing twice.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..judge.building import Built, build_all
from ..pipeline import lasting
from ..records import Candidate, Result, Task
from ..rewards.reward import Reward, RewardMode
from ..rewards.shaping import reward_malformed, reward_result, reward_solution
from .actions import Entry, find_solution
from .author_views import CheckView, VerdictView
from .code_view import view_code
from .describe import name_hardware
from .job_board import LiveJob
from .outcomes import evidence
from .profile_view import view_profile
from .tuning import propose_settings

if TYPE_CHECKING:
    from .author_session import AuthorSession
    from .service import AuthoringService

KNOWN = "the same was judged before on this machine, with this outcome"
QUARANTINED = "the task is quarantined, so its numbers prove nothing"


class JobWork:
    def __init__(
        self, service: AuthoringService, live: LiveJob, task: Task, candidates: Sequence[Candidate]
    ) -> None:
        self._service, self._live, self._task, self._candidates = service, live, task, list(candidates)
        self._board = service.job_board

    def run(self, session: AuthorSession) -> None:
        """In the thread of the task's judge."""
        self._board.begin(self._live)
        kind = self._live.job.kind
        if kind == "profile":
            session.open_for_screening()
            profile = view_profile(self._service, session, self._service.owner_of(self._live.id))
            self._board.update(self._live, profile=profile, notes=profile.notes)
            self._service.warm_up(self._task)
        elif kind == "inspect":
            self._inspect(session)
        elif kind == "verdict":
            self._judge(session, self._candidates)
        elif kind == "score":
            self._score(session)
        else:
            if kind == "screen":
                self._screen(session, self._candidates)
            else:
                self._tune(session, self._candidates[0])
            self._judge(session, self._choose_confirmed())
        self._note_best()

    def inspect(self) -> None:
        """Look at machine code; in a thread that needs no judge."""
        self._board.begin(self._live)
        self._inspect(None)

    def _inspect(self, session: AuthorSession | None) -> None:
        service = self._service
        target, owner = service.open_target(), service.owner_of(self._live.id)
        for candidate in self._candidates:
            if self._live.given_up:
                return
            counters = session.observe_counters(candidate) if session is not None else ()
            view = view_code(candidate, service.find_parent(candidate, owner), self._task, target, counters)
            self._board.update(self._live, code=(*self._live.job.code, view))

    def check(self) -> None:
        """Build every candidate at every shape; in a thread that needs no judge."""
        self._board.begin(self._live)
        for candidate in self._candidates:
            if self._live.given_up:
                return
            started = time.monotonic()
            built = build_all([candidate], self._task, self._service.open_target())[0]
            view = CheckView(
                candidate=candidate.id, ok=built.status == "ok", status=built.status, reason=built.reason,
                evidence=tuple(self._explain(candidate, built)), seconds=round(time.monotonic() - started, 3),
            )  # fmt: skip
            self._board.update(self._live, checks=(*self._live.job.checks, view))

    def _explain(self, candidate: Candidate, built: Built) -> list[str]:
        if built.status == "ok":
            return []
        failed = Result(
            candidate_id=candidate.id, content_key=candidate.content_key, task_id=self._task.id, target=candidate.target,
            status=built.status, reason=built.reason, builds=built.builds,
        )  # fmt: skip
        return evidence(candidate, failed)

    # -- rewards -------------------------------------------------------------------------------------

    def _score(self, session: AuthorSession) -> None:
        """Judge what each action became, once for equal ones, and reward them all."""
        job, results = self._live.job, dict[str, Result]()
        if job.mode == "screening" and self._candidates:
            results = self._screen(session, self._candidates)
            results |= self._judge(session, self._choose_confirmed())
        elif self._candidates:
            results = self._judge(session, self._candidates)
        of_solutions = self._score_solutions(session)
        if not self._live.given_up:
            rewards = [self._reward(session, entry, results, of_solutions) for entry in job.entries]
            self._board.update(self._live, rewards=tuple(rewards))

    def _score_solutions(self, session: AuthorSession) -> dict[str, Reward]:
        """Return the hash of a solution's text → its reward; of screened ones that are worth it by the full judge, if that is asked for."""
        job = self._live.job
        lengths = {entry.solution: entry.length for entry in job.entries if entry.solution}
        rewards = {
            solution: self._score_solution(session, solution, length, job.mode)
            for solution, length in lengths.items()
            if not self._live.given_up
        }
        if job.mode == "screening" and job.confirm != "none":
            worth_it = sorted(
                (s for s, r in rewards.items() if r.reward > 0), key=lambda s: -rewards[s].reward
            )
            for solution in worth_it[: 1 if job.confirm == "best" else None]:
                if not self._live.given_up:
                    rewards[solution] = self._score_solution(session, solution, lengths[solution], "verdict")
        return rewards

    def _score_solution(self, session: AuthorSession, solution: str, length: int, mode: RewardMode) -> Reward:
        self._stage(f"judging solution {solution}")
        path = find_solution(solution, self._service.config.cache)
        verdict = session.judge_solution(path, quick=mode == "screening")
        return reward_solution(verdict, length, self._live.job.weights, mode, solution)

    def _reward(
        self, session: AuthorSession, entry: Entry, results: Mapping[str, Result], of_solutions: Mapping[str, Reward]
    ) -> Reward:  # fmt: skip
        job = self._live.job
        if entry.problem:
            reward = reward_malformed(entry.problem, entry.length, job.weights)
        elif entry.solution:
            reward = of_solutions[entry.solution]
        else:
            candidate = next(c for c in self._candidates if c.id == entry.candidate)
            result = results[candidate.content_key]
            reward = reward_result(
                result, entry.length, job.weights, "verdict", evidence(candidate, result), session.doubts
            )
            hardware = name_hardware(self._service.target_name)
            reward = reward.model_copy(update={"hardware": hardware, "candidate": candidate.id})
        return reward.model_copy(update={"job": job.job_id})

    # -- screening, tuning, verdicts -----------------------------------------------------------------

    def _screen(self, session: AuthorSession, candidates: Sequence[Candidate]) -> dict[str, Result]:
        """Return content key → result."""
        known_results = self._index_known()
        results = {}
        for candidate in candidates:
            result = known_results.get(candidate.content_key)
            if result is not None and (result.status == "screened" or lasting(result)):
                results[candidate.content_key] = result
                self._put(session, candidate, result, KNOWN)
        unknown = list({c.content_key: c for c in candidates if c.content_key not in results}.values())
        if unknown and not self._live.given_up:
            for candidate, result in self._tell_stages(session, session.screen(unknown)):
                results[candidate.content_key] = result
                for twin in (c for c in candidates if c.content_key == candidate.content_key):
                    self._put(session, twin, result)
                if self._live.given_up:
                    break
        return results

    def _tune(self, session: AuthorSession, base: Candidate) -> None:
        """Screen the candidate at other values of its tunables, round by round."""
        results = self._screen(session, [base])
        tried = [(base, results[base.content_key])] if results else []
        while tried and not self._live.given_up:
            batch = propose_settings(base, tried, self._live.job.settings, self._service.config.tuner)
            if not batch:
                return
            for candidate in batch:
                self._service.keep_child(base, candidate)
            results = self._screen(session, batch)
            tried += [(c, results[c.content_key]) for c in batch if c.content_key in results]

    def _judge(self, session: AuthorSession, candidates: Sequence[Candidate]) -> dict[str, Result]:
        """Return content key → result."""
        results: dict[str, Result] = {}
        for candidate in candidates:
            if self._live.given_up:
                break
            earlier = self._index_known().get(candidate.content_key)
            if (
                earlier is not None
                and earlier.status != "screened"
                and lasting(earlier)
                and not _waits(earlier)
            ):
                self._put(session, candidate, earlier, KNOWN)
                results[candidate.content_key] = earlier
                continue
            self._stage(f"judging {candidate.id}")
            result = session.judge_candidate(
                candidate, earlier if earlier is not None and _waits(earlier) else None
            )
            self._put(session, candidate, result)
            results[candidate.content_key] = result
        return results

    def _choose_confirmed(self) -> list[Candidate]:
        """The screened candidates that also get a verdict, the most promising first."""
        confirm = self._live.job.confirm
        passed = [r for r in self._live.job.rows if r.timed is not None]
        ranked = sorted(passed, key=_worth)[: 1 if confirm == "best" else None]
        ids = [r.candidate for r in ranked] if confirm != "none" else []
        return [c for i in ids if (c := self._service.archive.candidate(i)) is not None]

    def _index_known(self) -> dict[str, Result]:
        return self._service.index_known_results(self._task)

    def _put(self, session: AuthorSession, candidate: Candidate, result: Result, note: str = "") -> None:
        notes = [note] if note else []
        if session.doubts:
            notes.append(f"{QUARANTINED}: {'; '.join(session.doubts)}")
        run = "" if note else session.run_id
        self._board.put_row(self._live, self._service.view_result(self._task, candidate, result, notes, run))

    def _note_best(self) -> None:
        passed = [r for r in self._live.job.rows if r.timed is not None]
        best = min(passed, key=_worth, default=None)
        busy = next((r.timed.busy for r in passed if r.timed is not None and r.timed.busy), "")
        notes = self._live.job.notes + ((busy,) if busy else ())
        self._board.update(self._live, best=best.candidate if best is not None else "", notes=notes)

    def _tell_stages(
        self, session: AuthorSession, results: Iterator[tuple[Candidate, Result]]
    ) -> Iterator[tuple[Candidate, Result]]:
        self._stage("screening")
        yield from results

    def _stage(self, text: str) -> None:
        self._board.update(self._live, durable=False, stage=text)


def _waits(result: Result) -> bool:
    """Return whether it is a win that was not confirmed yet."""
    return result.win and not result.confirmed


def _worth(row: VerdictView) -> tuple[float, Any]:
    """The order of candidates: by the time that is sure, the high end of the interval; not by the luckiest median."""
    assert row.timed is not None
    return (row.timed.high_us, row.timed.us)

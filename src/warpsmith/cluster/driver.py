"""The driver of a suite on Ray: it hands out runs, hears what workers tell, and decides what of it counts.

In: a suite, how it is played, the archive. Out: the summaries, in the order of the suite. Each worker has one job at most: the next is handed out as one
ends. Wins that have to be judged again come before new runs. A run whose worker is lost goes to the end of the queue with its last snapshot. All is
handled in the caller's thread, one event after the other.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pydantic import ValidationError

from ..archive.adopting import reject_run, release_runs_of
from ..archive.store import Archive
from ..archive.transfer import export_run
from ..bundles.manifest import BundleError, read_key
from ..errors import ArchiveError, Interrupted, JudgeError, WarpsmithError, make_error
from ..pipeline.lane_client import SUITE_ENDING
from ..pipeline.run_queue import RunQueue
from ..pipeline.suite import Finished, PlannedRun, Suite, make_failed
from ..progress import Observer
from ..records import RunSummary
from .claims import Claim, Claims
from .keeping import RunKeeper
from .members import Member, Members
from .messages import Event, PlayJob
from .settings import Playing, RaySettings
from .shipping import ArrivedRun, Unsound, find_claim, read_arrived
from .trust import Word, keep_word, make_claim_bundle, pack, weigh

POLL_S = 0.5
ATTEMPTS = 4  # at a run whose workers are lost
GRACE_S = 15.0  # for runs to end in good order when the suite ends early


class Driver:
    def __init__(
        self, ray: Any, suite: Suite, playing: Playing, settings: RaySettings, members: Members, archive: Archive,
        observer: Observer, finished: Finished | None, is_stopped: Callable[[], bool],
    ) -> None:  # fmt: skip
        self._ray, self._playing, self._settings, self._members = ray, playing, settings, members
        self._observer, self._finished, self._archive = observer, finished, archive
        self._plan = suite.plan()
        self._queue = RunQueue(self._plan, is_stopped, ATTEMPTS)
        self._claims = Claims()
        self._keeper = RunKeeper(archive, playing.cache, playing.settings, observer, settings.retry_s)
        self._key = read_key(settings.key_file)
        self._overrides = playing.settings.get("overrides")
        self._sources = {run.index: run.path.read_text() for run in self._plan}
        self._players: defaultdict[int, set[tuple[str, int]]] = defaultdict(set)
        self._paths: dict[int, str] = {}
        self.summaries: dict[int, RunSummary] = {}

    # -- the loop ----------------------------------------------------------------------------------

    def play(self) -> list[RunSummary]:
        """Play every run. Raises ArchiveError, ModelError, Interrupted; JudgeError when no worker is there."""
        try:
            while self._queue.count_waiting() or self._busy() or self._claims.waiting:
                self._members.refresh()
                self._settle_hopeless()
                self._hand_out()
                self._hear()
                if self._members.alone_s > self._settings.join_s:
                    raise JudgeError(self._explain_alone())
        except KeyboardInterrupt:
            self._interrupt()
            raise Interrupted(
                f"interrupted: {len(self.summaries)} of {len(self._plan)} runs are done; the same command goes on from there"
            ) from None
        return [self.summaries[index] for index in sorted(self.summaries)]

    def _busy(self) -> list[Member]:
        return [m for m in self._members if m.stream is not None]

    def _hand_out(self) -> None:
        """Give each idle worker a claim to judge, else a run to play."""
        for member in [m for m in self._members if m.is_idle]:
            claim = self._claims.find_for(member)
            if claim is not None:
                self._claims.waiting.remove(claim)
                claim.judges.add(member.slot.key)
                member.job = claim
                self._observer.note(f"{member.name}: judging {claim.run.name} of {claim.member.name} again")
                member.stream = member.actor.confirm.remote(claim.run.name, pack(claim.bundle))
            elif (run := self._queue.take()) is not None:
                self._start(member, run)

    def _start(self, member: Member, run: PlannedRun) -> None:
        source = self._sources[run.index]
        tells = self._playing.tells_finished
        history = self._keeper.list_known(run, source, tells) if self._playing.sends else ()
        job = PlayJob(name=run.name, path=str(run.path), text=source, seed=run.seed, history=tuple(history))
        member.job = run
        self._players[run.index].add(member.slot.key)
        self._observer.note(f"{member.name}: {run.title}")
        member.stream = member.actor.play.remote(job.model_dump_json())

    def _hear(self) -> None:
        """Wait until a worker tells something, and handle it."""
        by_source = {m.stream: m for m in self._busy()}
        by_source |= {m.greeting: m for m in self._members if m.greeting is not None}
        if not by_source:
            time.sleep(POLL_S)
            return
        ready, _ = self._ray.wait(list(by_source), num_returns=1, timeout=POLL_S)
        for source in ready:
            member = by_source[source]
            if member.greeting is not None:
                self._members.greet(member)
            else:
                self._handle_next(member)

    def _handle_next(self, member: Member) -> None:
        try:
            event = Event.model_validate_json(self._ray.get(next(member.stream)))
        except (StopIteration, self._ray.exceptions.RayError) as error:
            return self._lose(member, " ".join(str(error).split())[:200] or type(error).__name__)
        except ValidationError:
            return self._refuse(member, "it sent what is no event")
        if event.is_last:
            member.stream = None
        if isinstance(member.job, Claim):
            self._handle_word(member, member.job, event)
        else:
            self._handle_play(member, member.job, event)

    # -- runs --------------------------------------------------------------------------------------

    def _handle_play(self, member: Member, run: PlannedRun, event: Event) -> None:
        match event.kind:
            case "line":
                self._observer.note(event.text)
            case "owner":
                member.owner = event.text
            case "snapshot":
                self._take_snapshot(member, run, event)
            case "played":
                self._take_run(member, run, event)
            case "lost":
                self._put_back(run, member.name, event.text)
            case "error":
                self._handle_error(member, run, event)

    def _take_snapshot(self, member: Member, run: PlannedRun, event: Event) -> None:
        try:
            arrived = self._read(member, run, event)
        except Unsound as error:
            return self._refuse(member, str(error))
        self._keeper.keep_snapshot(run, self._sources[run.index], arrived.text)

    def _take_run(self, member: Member, run: PlannedRun, event: Event) -> None:
        """Decide what of a run counts that a worker has played."""
        summary = event.summary
        if summary is None:
            return self._refuse(member, "it sent no summary")
        if not summary.run_id:
            return self._fail(run, summary, WarpsmithError(summary.reason))
        recorded = self._keeper.find_kept(summary.run_id) if self._playing.sends else None
        if recorded is not None:  # it was finished before
            return self._finish(run, recorded)
        try:
            arrived = (
                self._read(member, run, event)
                if self._playing.sends
                else self._read_written(member, run, summary)
            )
            claimed = find_claim(arrived, summary)
        except Unsound as error:
            return self._refuse(member, str(error))
        if summary.fault:  # unfinished: its snapshot is what the same command goes on from
            self._keeper.keep_snapshot(run, self._sources[run.index], arrived.text)
            self._queue.close()
            self._finish(run, summary)
            return self._observer.note(f"the suite stops here: {summary.fault}")
        if claimed is None or self._settings.trusts or self._settings.starts_here:
            trusted = self._settings.trusts or self._settings.starts_here
            return self._keep(run, arrived, summary, () if trusted else tuple(arrived.wins))
        bundle = make_claim_bundle(arrived.task, arrived.candidates[claimed.candidate_id], self._key)
        claim = Claim(run, summary, arrived, claimed, bundle, member, set(self._players[run.index]))
        self._keeper.keep_snapshot(run, self._sources[run.index], arrived.text)
        self._claims.waiting.append(claim)

    def _read(self, member: Member, run: PlannedRun, event: Event) -> ArrivedRun:
        assert member.hello is not None
        return read_arrived(
            event.text, event.mac, run, self._sources[run.index], member.hello.environment,
            key=self._key, archive=self._archive.name, ahead_s=member.ahead_s, overrides=self._overrides,
        )  # fmt: skip

    def _read_written(self, member: Member, run: PlannedRun, summary: RunSummary) -> ArrivedRun:
        """Read a run that a worker wrote into the archive by itself."""
        assert member.hello is not None
        try:
            text = export_run(self._archive, summary.run_id)
        except ArchiveError as error:
            raise Unsound(f"the run that it wrote is not in the archive: {error}") from error
        return read_arrived(
            text, "", run, self._sources[run.index], member.hello.environment, archive=self._archive.name,
            overrides=self._overrides,
        )  # fmt: skip

    def _keep(
        self, run: PlannedRun, arrived: ArrivedRun, summary: RunSummary, without: tuple[str, ...] = ()
    ) -> None:
        self._keeper.keep(arrived, summary, without)
        self._finish(run, summary)

    def _finish(self, run: PlannedRun, summary: RunSummary) -> None:
        if not summary.fault:
            self._keeper.drop_snapshot(run, self._sources[run.index])
        self.summaries[run.index] = summary.model_copy(update={"task": run.name})
        self._observer.finish(self.summaries[run.index])
        if self._finished is not None:
            self._finished(self.summaries[run.index], len(self._plan) - len(self.summaries))

    def _handle_error(self, member: Member, run: PlannedRun, event: Event) -> None:
        """An error that would end every run ends the suite, but for that of a worker's own archive."""
        if event.error == ArchiveError.__name__:
            if self._playing.sends:  # its own, which the others do not need
                self._members.set_aside(member, event.text)
            else:
                time.sleep(self._settings.retry_s)  # the server may be starting again
            return self._put_back(
                run, member.name, event.text, ArchiveError if not self._playing.sends else None
            )
        if event.error in SUITE_ENDING:
            raise SUITE_ENDING[event.error](event.text)
        error = make_error(event.error, event.text)
        self._fail(run, make_failed(run.path.stem, run.seed, run.target, str(error)), error)

    def _put_back(
        self, run: PlannedRun, name: str, reason: str, error: type[Exception] | None = None
    ) -> None:
        if self._queue.put_back(run):
            return self._observer.note(f"{run.name} is put back: {name}: {reason}")
        if error is not None:
            raise error(reason)
        tries = self._queue.count_attempts(run)
        failed = make_failed(
            run.path.stem, run.seed, run.target, f"{tries} workers were lost or refused while playing it: {reason}"
        )  # fmt: skip
        self._fail(run, failed, JudgeError(failed.reason))

    def _fail(self, run: PlannedRun, failed: RunSummary, error: WarpsmithError) -> None:
        """End a run that came to nothing: as a row of the suite, or by its error where that is to be raised."""
        if self._playing.settings.get("raises"):
            raise error
        self._finish(run, failed)

    # -- workers that fail -------------------------------------------------------------------------

    def _lose(self, member: Member, reason: str) -> None:
        """A worker's process or node has ended: what it did is done by another."""
        job, owner = member.job, member.owner
        self._members.lose(member, reason)
        if not self._playing.sends and owner:
            self._keeper.insist(lambda: release_runs_of(self._archive, owner))
        if isinstance(job, Claim):
            self._claims.waiting.append(job)
        elif job is not None:
            self._put_back(job, member.name, "it was lost")

    def _refuse(self, member: Member, reason: str) -> None:
        """Keep nothing of what a worker sent that is not sound, and take nothing more of this worker."""
        self._members.set_aside(member, reason)
        self._return_job(member, reason)

    def _dismiss(self, member: Member, reason: str) -> None:
        """Take nothing more of a worker that others contradict, and have done by another what it is doing."""
        is_busy = member.stream is not None
        if not member.aside:
            self._members.set_aside(member, reason)
        if is_busy:
            self._return_job(member, reason)

    def _return_job(self, member: Member, reason: str) -> None:
        if isinstance(member.job, Claim):
            self._claims.waiting.append(member.job)
        else:
            self._forget(member.job)
            self._put_back(member.job, member.name, reason)

    def _forget(self, run: PlannedRun) -> None:
        """Keep nothing of a run as it was played until now."""
        self._keeper.drop_snapshot(run, self._sources[run.index])
        self._players[run.index].clear()

    # -- claims ------------------------------------------------------------------------------------

    def _handle_word(self, member: Member, claim: Claim, event: Event) -> None:
        if event.kind == "line":
            return self._observer.note(event.text)
        if not event.is_last:
            return None
        assert member.hello is not None
        word = Word("none", event.text)
        if event.kind == "judged":
            try:
                word = weigh(claim.bundle, claim.result, event.text, member.hello.environment, self._key)
            except BundleError as error:
                return self._refuse(member, str(error))
        self._observer.note(
            f"{claim.run.name} of {claim.member.name} is {word.verdict} by {member.name}: {word.reason}"
        )
        match word.verdict:
            case "confirmed":
                self._keep_win(claim, word)
            case "unproved":
                self._keep_as_no_win(claim, word, member)
            case "refuted":
                self._weigh_refusal(claim, word, member)
            case "none":
                claim.word = word
                self._claims.waiting.append(claim)
        return None

    def _keep_win(self, claim: Claim, word: Word) -> None:
        """A second worker wins, too. Whoever had contradicted is contradicted by two."""
        for member in claim.refuted_by:
            self._dismiss(member, f"it contradicts two others on {claim.run.name}")
        without = tuple(
            i for i, r in claim.arrived.wins.items() if r.candidate_id != claim.result.candidate_id
        )
        self._keeper.keep(claim.arrived, claim.summary, without)
        self._keeper.insist(lambda: keep_word(self._archive, claim.bundle, word.rows, self._key))
        self._finish(claim.run, claim.summary)

    def _keep_as_no_win(self, claim: Claim, word: Word, member: Member) -> None:
        reason = f"won on {claim.member.name} and not on {member.name}: {word.reason}"
        summary = claim.summary.model_copy(update={"status": "no-win", "reason": reason})
        self._keeper.keep(claim.arrived, summary, tuple(claim.arrived.wins))
        self._keeper.insist(lambda: keep_word(self._archive, claim.bundle, word.rows, self._key))
        self._finish(claim.run, summary)

    def _weigh_refusal(self, claim: Claim, word: Word, member: Member) -> None:
        """A second worker contradicts: a third decides; two that contradict are believed."""
        claim.refuted_by.append(member)
        claim.word = word
        if len(claim.refuted_by) > 1:
            self._reject(claim, word.reason)
        else:
            self._claims.waiting.append(claim)

    def _reject(self, claim: Claim, reason: str) -> None:
        """Keep nothing of the run, set aside who claimed it, and have it played by another."""
        if not self._playing.sends:
            self._keeper.insist(lambda: reject_run(self._archive, claim.summary.run_id))
        self._dismiss(claim.member, f"its win on {claim.run.name} is refuted: {reason}")
        self._forget(claim.run)
        self._put_back(claim.run, claim.member.name, reason)

    def _settle_hopeless(self) -> None:
        """Decide claims that nobody is left to judge: refuted by one they are rejected, else kept as unverified."""
        for claim in self._claims.list_hopeless(self._members):
            self._claims.waiting.remove(claim)
            if claim.refuted_by:
                self._reject(claim, claim.word.reason if claim.word is not None else "")
                continue
            why = f"; {claim.word.reason}" if claim.word is not None else ""
            reason = (
                f"{claim.member.name} claims a win, and no other worker of its kind could judge it again{why}"
            )
            summary = claim.summary.model_copy(update={"status": "no-win", "reason": reason})
            self._keeper.keep_unverified(claim.arrived, summary)
            self._finish(claim.run, summary)

    # -- an early end ------------------------------------------------------------------------------

    def _interrupt(self) -> None:
        """Interrupt what is played, and keep how far each run is."""
        self._observer.note("interrupted: the workers end")
        self._queue.close()
        for member in self._busy():
            member.actor.stop.remote()
        deadline = time.monotonic() + GRACE_S
        while (busy := self._busy()) and time.monotonic() < deadline:
            ready, _ = self._ray.wait([m.stream for m in busy], num_returns=1, timeout=POLL_S)
            for member in [m for m in busy if m.stream in ready]:
                with suppress(WarpsmithError):
                    self._handle_next(member)

    def _explain_alone(self) -> str:
        asides = [f"{m.name}: {m.aside}" for m in self._members if m.aside]
        reasons = f" ({'; '.join(asides)})" if asides else ""
        return f"no worker is left in the Ray cluster{reasons}: {len(self.summaries)} of {len(self._plan)} runs are done"

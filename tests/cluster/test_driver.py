"""The driver of a suite on Ray, with workers in this process: what counts of what they send, and what stays when things fail."""

from __future__ import annotations

import errno
import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from fake_ray import InProcessWorker, RayError, Stage, name_winners, play_alone
from sqlalchemy import event as engine_event

from warpsmith.archive.store import Archive
from warpsmith.cluster import keeping, members
from warpsmith.cluster.messages import Event, Hello
from warpsmith.errors import ArchiveError, Interrupted, JudgeError, ModelError
from warpsmith.processes.worker import WorkerDied
from warpsmith.records import RunSummary

KEY = "0123456789abcdef0123456789abcdef\n"


def list_winners(archive: Archive) -> dict[str, float]:
    """Task → speedup of each winner of the archive."""
    names = {run.task_id: run.task_name for run in archive.runs()}
    entries = [e for e in archive.standing_everywhere("cpu") if e.verified_here and e.result.win]
    return {names[e.result.task_id]: e.result.speedup.median for e in entries if e.result.speedup is not None}


def speedups(summaries: list[RunSummary]) -> dict[str, float]:
    return {s.task: s.best.speedup.median for s in summaries if s.best is not None}


def tamper(change: Callable[[Event], Event]) -> type[InProcessWorker]:
    """A worker that changes what it sends of runs that it played."""

    class Tampering(InProcessWorker):
        def play(self, job: str) -> Iterator[str]:
            for text in super().play(job):
                event = Event.model_validate_json(text)
                yield (change(event) if event.kind == "played" else event).model_dump_json()

    return Tampering


def change_lines(kind: str, change: Callable[[dict[str, Any]], None]) -> type[InProcessWorker]:
    """A worker that changes the lines of a kind in the runs that it sends."""

    def edit(event: Event) -> Event:
        lines = [json.loads(line) for line in event.text.splitlines()]
        for line in lines:
            if line["kind"] == kind:
                change(line)
        return event.model_copy(update={"text": "\n".join(map(json.dumps, lines))})

    return tamper(edit)


# ---------------------------------------------------------------- honest workers


def test_a_suite_on_two_workers_ends_with_the_winners_of_one_machine(stage: Stage, tmp_path: Path) -> None:
    heard: list[int] = []
    summaries = stage.run(finished=lambda s, to_come: heard.append(to_come))
    alone = play_alone(tmp_path, stage)
    assert name_winners(summaries) == name_winners(alone)
    assert [s.status for s in summaries] == ["win"] * 4
    assert heard == [3, 2, 1, 0]
    assert list_winners(stage.archive) == pytest.approx(speedups(alone))
    assert {run.origin for run in stage.archive.runs() if run.facts} == {"local"}
    assert not list((tmp_path / "cache" / "ray").iterdir())


def test_a_win_counts_only_after_another_worker_has_judged_it(stage: Stage) -> None:
    stage.run()
    told = [n for n in stage.notes.notes if "again" in n or "confirmed" in n]
    for name in "abcd":
        judged = next(n for n in told if f"judging {name} of" in n)
        claimant, judge = judged.split(" of ")[1].split()[0], judged.partition(":")[0]
        assert claimant != judge
    confirmations = [e for e in stage.archive.standing_everywhere("cpu") if e.verified_here]
    assert len(confirmations) == 4
    assert all(
        stage.archive.run(e.run_id or stage.archive.run_of(e.result.id)).task_name for e in confirmations
    )


def test_a_worker_without_a_second_of_its_kind_makes_no_winner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(tmp_path, monkeypatch, nodes=1, tasks="ab")
    summaries = stage.run()
    assert [s.status for s in summaries] == ["no-win", "no-win"]
    assert "no other worker of its kind" in summaries[0].reason
    assert not list_winners(stage.archive)
    assert {run.origin for run in stage.archive.runs()} == {"imported"}


def test_a_trusted_worker_makes_winners_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(tmp_path, monkeypatch, nodes=1, tasks="ab")
    summaries = stage.run(trusts=True)
    assert list_winners(stage.archive) == pytest.approx(speedups(summaries))
    assert [s.status for s in summaries] == ["win", "win"]


def test_the_same_command_plays_no_finished_run_again(stage: Stage) -> None:
    first = stage.run()
    ids = {run.run_id for run in stage.archive.runs()}
    assert stage.run() == first
    assert {run.run_id for run in stage.archive.runs()} == ids


def test_an_interrupted_suite_goes_on_with_the_runs_it_has(stage: Stage) -> None:
    kept: list[RunSummary] = []

    def press_ctrl_c(summary: RunSummary, to_come: int) -> None:
        kept.append(summary)
        if to_come == 2:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match=r"[23] of 4 runs are done"):
        stage.run(finished=press_ctrl_c)
    summaries = stage.run()
    assert [s for s in summaries if s in kept] == sorted(kept, key=lambda s: s.task)
    assert [s.task for s in summaries] == list("abcd")


def test_runs_that_are_sealed_with_the_key_are_taken(stage: Stage, tmp_path: Path) -> None:
    (tmp_path / "key").write_text(KEY)
    summaries = stage.run(key_file=tmp_path / "key")
    assert [s.status for s in summaries] == ["win"] * 4


def test_a_task_that_fails_is_a_row_and_a_lost_model_ends_the_suite(stage: Stage) -> None:
    def fail(event: Event) -> Event:
        assert event.summary is not None
        if event.summary.task == "a":
            failed = event.summary.model_copy(update={"status": "failed", "run_id": "", "reason": "no Model"})
            return event.model_copy(update={"summary": failed})
        if event.summary.task == "d":
            return Event(kind="error", error="ModelError", text="no answer")
        return event

    stage.workers = dict.fromkeys(stage.ray.alive, tamper(fail))
    with pytest.raises(ModelError, match="no answer"):
        stage.run()
    assert [(s.task, s.reason) for s in stage.notes.over if s.status == "failed"] == [("a", "no Model")]


# ---------------------------------------------------------------- workers that forge


def test_a_forged_win_is_refuted_by_two_and_its_worker_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(tmp_path, monkeypatch, nodes=3)
    summaries = stage.run(stage.make_playing(forge={"host-n0": 10.0}))
    assert [s.status for s in summaries] == ["win"] * 4
    assert "host-n0 is set aside: its win on" in stage.notes
    assert list_winners(stage.archive) == pytest.approx(speedups(summaries))
    every = [e for run in stage.archive.runs() for e in stage.archive.run_entries(run.run_id)]
    assert max(e.result.speedup.median for e in every if e.result.speedup is not None) < 3


def test_of_two_workers_that_contradict_each_other_neither_makes_a_winner(stage: Stage) -> None:
    summaries = stage.run(stage.make_playing(forge={"host-n0": 10.0}))
    assert "host-n0 is set aside" in stage.notes
    forged = [s for s in summaries if s.best is not None and s.best.speedup.median > 3]
    assert not forged
    assert all(speedup < 3 for speedup in list_winners(stage.archive).values())
    assert {s.task for s in summaries if s.status == "win"} == set(list_winners(stage.archive))


def test_a_worker_that_denies_honest_wins_is_set_aside_by_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(tmp_path, monkeypatch, nodes=3)
    stage.workers["n1"] = Denying
    summaries = stage.run()
    assert [s.status for s in summaries] == ["win"] * 4
    assert "host-n1 is set aside: it contradicts two others" in stage.notes
    assert list_winners(stage.archive) == pytest.approx(speedups(summaries))


class Denying(InProcessWorker):
    """Judges the claims of others as three times slower than they are."""

    def _confirm(self, name: str, bundle: bytes, tell: Any) -> Event:
        with mock.patch("cluster_plays.rate", return_value=0.3):
            return super()._confirm(name, bundle, tell)


def test_a_win_that_another_worker_measures_within_noise_of_1_is_no_win(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(tmp_path, monkeypatch, nodes=2, tasks="a")
    stage.workers = dict.fromkeys(stage.ray.alive, Doubting)
    with mock.patch("cluster_plays.rate", return_value=1.05):
        (summary,) = stage.run()
    assert summary.status == "no-win"
    assert "and not on" in summary.reason
    assert not list_winners(stage.archive)
    assert "set aside" not in stage.notes


class Doubting(InProcessWorker):
    def _confirm(self, name: str, bundle: bytes, tell: Any) -> Event:
        with mock.patch("cluster_plays.rate", return_value=0.99):
            return super()._confirm(name, bundle, tell)


def raise_speedup(line: dict[str, Any]) -> None:
    for ratio in line["record"]["timing"]["ratios"]:
        ratio.update(median=50.0, low=49.0, high=51.0)


FORGERIES = {
    "no export": (tamper(lambda e: e.model_copy(update={"text": "{}"})), "no export of a run"),
    "nothing": (tamper(lambda e: e.model_copy(update={"text": ""})), "0 runs"),
    "no summary": (tamper(lambda e: e.model_copy(update={"summary": None})), "no summary"),
    "another machine": (
        change_lines("run", lambda line: line["record"]["environment"].update(torch="9")),
        "another environment",
    ),
    "another seed": (change_lines("run", lambda line: line["record"].update(seed=99)), "not asked for"),
    "another source": (
        change_lines("task", lambda line: line["record"]["source"].update(text="class Model: pass")),
        "is not the one",
    ),
    "another task": (
        change_lines("result", lambda line: line["record"].update(task_id="0" * 16)),
        "not of its task",
    ),
    "another candidate": (
        change_lines("result", lambda line: line["record"].update(content_key="0" * 16)),
        "does not match a candidate",
    ),
    "a licence": (
        tamper(lambda e: e.model_copy(update={"text": e.text + '{"kind":"license","id":"x","record":{}}'})),
        "lines of another kind",
    ),
    "invalid": (change_lines("result", lambda line: line["record"].update(status="splendid")), "result"),
    "a win from nowhere": (
        change_lines("result", lambda line: (line["record"].get("timing") or {}).update(confirmed=False)),
        "none of its results shows",
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_run_that_is_not_sound_is_refused_and_played_by_another(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(tmp_path, monkeypatch, nodes=3, tasks="ab")
    stage.workers["n0"], reason = FORGERIES[name]
    summaries = stage.run()
    assert [s.status for s in summaries] == ["win", "win"]
    aside = next(n for n in stage.notes.notes if n.startswith("host-n0 is set aside"))
    assert reason in aside
    assert list_winners(stage.archive) == pytest.approx(speedups(summaries))


def test_forged_numbers_in_honest_records_make_no_winner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All is valid, hashed and of the right task and machine: only another machine can tell."""
    stage = Stage(tmp_path, monkeypatch, nodes=3, tasks="ab")

    def raise_all(line: dict[str, Any]) -> None:
        if line["record"]["status"] == "ok":
            raise_speedup(line)

    stage.workers["n0"] = change_lines("result", raise_all)
    summaries = stage.run()
    assert "host-n0 is set aside: its win on" in stage.notes
    assert list_winners(stage.archive) == pytest.approx(speedups(summaries))
    assert max(speedups(summaries).values()) < 3


def test_a_run_without_the_seal_of_the_key_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(tmp_path, monkeypatch, nodes=3, tasks="ab")
    (tmp_path / "key").write_text(KEY)
    stage.workers["n0"] = tamper(lambda e: e.model_copy(update={"text": e.text + "\n"}))
    assert [s.status for s in stage.run(key_file=tmp_path / "key")] == ["win", "win"]
    assert "host-n0 is set aside: the run is not sealed with the key" in stage.notes


def test_rows_of_a_judgement_that_were_changed_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Changing(InProcessWorker):
        def confirm(self, name: str, bundle: bytes) -> Iterator[str]:
            for text in super().confirm(name, bundle):
                event = Event.model_validate_json(text)
                yield event.model_copy(
                    update={"text": event.text.replace("confirmed", "c")}
                ).model_dump_json()

    stage = Stage(tmp_path, monkeypatch, nodes=3, tasks="abc")
    stage.workers["n1"] = Changing
    assert [s.status for s in stage.run()] == ["win"] * 3
    assert "was changed, or a line before it is missing" in next(n for n in stage.notes.notes if "aside" in n)


def test_a_suite_whose_workers_are_all_refused_ends_with_the_reasons(stage: Stage) -> None:
    stage.workers = dict.fromkeys(stage.ray.alive, FORGERIES["no export"][0])
    with pytest.raises(JudgeError, match=r"no worker is left .*no export of a run"):
        stage.run()
    assert not list_winners(stage.archive)


# ---------------------------------------------------------------- which workers may play


def test_a_worker_of_another_version_does_not_play(stage: Stage) -> None:
    class Older(InProcessWorker):
        def describe(self) -> Any:
            return super().describe().model_copy(update={"warpsmith": "0.0.1"})

    stage.workers["n0"] = Older
    assert len(stage.run(trusts=True)) == 4
    assert "host-n0 is set aside: it has warpsmith 0.0.1" in stage.notes


def test_one_node_of_a_machine_times_at_once(stage: Stage) -> None:
    assert len(stage.run(trusts=True, one_a_machine=True)) == 4
    assert "is set aside: another worker is on its machine" in stage.notes


# ---------------------------------------------------------------- what fails around them


def test_a_worker_that_is_lost_hands_its_run_to_another(stage: Stage) -> None:
    class Lost(InProcessWorker):
        def play(self, job: str) -> Iterator[str]:
            stage.ray.alive.remove("n0")
            raise RayError("the node died")
            yield ""

    stage.workers["n0"] = Lost
    stage.ray.alive.append("n2")
    assert [s.status for s in stage.run()] == ["win"] * 4
    assert "host-n0 is lost with its node" in stage.notes
    assert "is put back: host-n0: it was lost" in stage.notes


def test_a_run_that_ends_every_process_is_a_failed_row(stage: Stage) -> None:
    class Crashing(InProcessWorker):
        def _play(self, job: Any, tell: Any) -> Event:
            if job.name == "b":
                raise WorkerDied("the process ended unexpectedly (signal SIGKILL)")
            return super()._play(job, tell)

    stage.workers = dict.fromkeys(stage.ray.alive, Crashing)
    summaries = stage.run()
    assert [s.status for s in summaries] == ["win", "failed", "win", "win"]
    assert "4 workers were lost or refused while playing it" in summaries[1].reason


def test_a_worker_that_ends_again_and_again_is_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(tmp_path, monkeypatch, nodes=3, tasks="abcdef")

    class Mute(InProcessWorker):
        def play(self, job: str) -> Iterator[str]:
            raise RayError("out of memory")
            yield ""

        def confirm(self, name: str, bundle: bytes) -> Iterator[str]:
            return self.play(name)

    stage.workers["n0"] = Mute
    assert [s.status for s in stage.run()] == ["win"] * 6
    assert "host-n0 is set aside: it ended 3 times: out of memory" in stage.notes


def test_an_archive_that_is_locked_for_a_while_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warpsmith.archive.sqlite.BUSY_SECONDS", 0.05)
    stage = Stage(tmp_path, monkeypatch)
    other, locks = sqlite3.connect(tmp_path / "archive.db", isolation_level=None), []

    def lock(summary: RunSummary, to_come: int) -> None:
        if not locks:
            locks.append(other.execute("BEGIN EXCLUSIVE"))

    def unlock(seconds: float) -> None:
        if other.in_transaction:
            other.execute("ROLLBACK")

    monkeypatch.setattr(keeping.time, "sleep", unlock)
    summaries = stage.run(finished=lock)
    assert locks
    assert "is busy: another process has been writing to it" in stage.notes
    assert list_winners(stage.archive) == pytest.approx(speedups(summaries))
    assert len(summaries) == 4


def test_a_full_disk_ends_the_suite_and_the_same_command_takes_in_what_was_played(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(tmp_path, monkeypatch, tasks="ab")
    engine = stage.archive.database.engine

    def fill(connection: Any, record: Any) -> None:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count={pages}")

    def fill_disk(summary: RunSummary, to_come: int) -> None:
        if not engine_event.contains(engine, "connect", fill):
            engine_event.listen(engine, "connect", fill)
            engine.dispose()

    with pytest.raises(ArchiveError, match=r"the disk is full.*the same command takes it in"):
        stage.run(finished=fill_disk)
    (kept,) = (tmp_path / "cache" / "ray").glob("*.jsonl")
    played = next(r["id"] for r in map(json.loads, kept.read_text().splitlines()) if r["kind"] == "run")
    stage.archive = Archive(tmp_path / "archive.db")
    summaries = stage.run()
    assert played in {s.run_id for s in summaries}
    assert list_winners(stage.archive) == pytest.approx(speedups(summaries))
    assert not list((tmp_path / "cache" / "ray").iterdir())


def test_a_cache_without_room_costs_the_snapshot_and_not_the_run(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        keeping, "aside", mock.Mock(side_effect=OSError(errno.ENOSPC, "No space left on device"))
    )
    assert [s.status for s in stage.run()] == ["win"] * 4
    assert "no snapshot of a is kept: [Errno 28] No space left on device" in stage.notes


def test_a_worker_whose_clock_is_hours_ahead_keeps_the_order_of_runs(stage: Stage) -> None:
    ahead = timedelta(hours=5)

    class Ahead(InProcessWorker):
        def clock(self) -> float:
            return time.time() + ahead.total_seconds()

        def _play(self, job: Any, tell: Any) -> Event:
            later = lambda: (datetime.now(UTC) + ahead).isoformat(timespec="microseconds")  # noqa: E731
            with mock.patch("warpsmith.archive.store.now", later):
                return super()._play(job, tell)

    stage.workers["n0"] = Ahead
    began = datetime.now(UTC)
    summaries = stage.run()
    assert "its clock is +18000 s off" in stage.notes
    players = {n.partition(":")[0] for n in stage.notes.notes if "/4] " in n and n.startswith("host")}
    assert players == {"host-n0", "host-n1"}
    for summary in summaries:
        run = stage.archive.run(summary.run_id)
        assert abs(datetime.fromisoformat(run.started_at) - began) < timedelta(minutes=5)
        numbers = [e.number for e in stage.archive.run_entries(summary.run_id)]
        assert numbers == sorted(numbers)
        assert numbers
    assert list_winners(stage.archive) == pytest.approx(speedups(summaries))


def test_a_slow_way_is_not_taken_for_a_clock_that_is_wrong(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(InProcessWorker):
        def clock(self) -> float:
            here = time.time()
            time.sleep(0.3)
            return here

    monkeypatch.setattr(members, "CLOCK_TOLERANCE_S", 0.05)
    stage.workers = dict.fromkeys(stage.ray.alive, Slow)
    waits, real = iter(range(200)), stage.ray.wait

    def answer_late(sources: list[Any], num_returns: int, timeout: float) -> Any:
        return ([], sources) if next(waits, 1) % 3 else real(sources, num_returns, timeout)

    monkeypatch.setattr(stage.ray, "wait", answer_late)
    assert [s.status for s in stage.run()] == ["win"] * 4
    assert "clock" not in stage.notes


def test_a_worker_that_does_not_say_what_it_is_is_set_aside(stage: Stage) -> None:
    class Silent(InProcessWorker):
        def hello(self) -> str:
            return Hello.model_validate_json(super().hello()).model_dump_json(exclude={"environment"})

    stage.workers["n0"] = Silent
    assert len(stage.run(trusts=True)) == 4
    assert "host-n0 is set aside: it does not say what it is" in stage.notes

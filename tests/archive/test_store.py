"""The archive keeps what it is given, finds it again, and hands back validated records."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpsmith.archive import Archive
from warpsmith.archive.exemplars import find_sound_entries
from warpsmith.archive.store import config_key
from warpsmith.errors import ArchiveError
from warpsmith.records import (
    Admission,
    BaselineTiming,
    Environment,
    Hypothesis,
    Limit,
    Region,
    RunSummary,
)


def test_a_result_comes_back_with_its_candidate_sources_and_hypothesis(begun, make):
    archive = begun()
    region = Region(nodes=("relu",), inputs=("x",), outputs=("relu",), signature="s")
    idea = Hypothesis(
        region=region, family="elementwise", technique="unroll", bottleneck="memory", expected_gain=1.4,
        evidence=("20% of the limit",)
    )  # fmt: skip
    plain = make.candidate(1)
    candidate = plain.model_copy(update={"lineage": plain.lineage.model_copy(update={"hypothesis": idea.id})})
    archive.add_result("run-1", candidate, make.ok(candidate), idea)
    (entry,) = archive.results(make.task.id, "cpu")
    assert entry.candidate == candidate
    assert entry.result == make.ok(candidate)
    assert entry.hypothesis == idea
    assert archive.candidate(candidate.id).units[0].source == candidate.units[0].source
    assert archive.task(make.task.id) == make.task
    assert archive.environment(make.environment.id) == make.environment
    (placed,) = archive.run_entries("run-1")
    assert (placed.number, placed.kind, placed.run_id) == (1, "search", "run-1")


def test_units_keep_their_order(begun, make):
    archive = begun()
    one, two = make.candidate(1).units[0], make.candidate(2).units[0]
    for units in ((one, two), (two, one)):
        candidate = make.candidate().model_copy(update={"units": units})
        archive.add_candidate(candidate)
        assert archive.candidate(candidate.id).units == units


def test_adding_a_result_twice_changes_nothing(begun, make):
    archive = begun()
    candidate = make.candidate()
    for _ in range(2):
        archive.add_result("run-1", candidate, make.ok(candidate))
    assert len(archive.results(make.task.id, "cpu")) == 1
    assert len(archive.run_entries("run-1")) == 1


def test_a_result_of_another_candidate_is_refused(begun, make):
    archive = begun()
    with pytest.raises(ArchiveError, match="is not of candidate"):
        archive.add_result("run-1", make.candidate(1), make.ok(make.candidate(2)))
    assert archive.counts()["candidates"] == 0


def test_a_result_of_an_unknown_run_is_refused_whole(begun, make):
    archive = begun()
    with pytest.raises(ArchiveError, match="no run nope"):
        archive.add_result("nope", make.candidate(), make.ok(make.candidate()))
    assert archive.counts()["results"] == 0


def test_judged_keys_are_of_one_environment_and_leave_out_judge_errors(begun, make):
    archive = begun()
    ok, wrong, lost = make.candidate(1), make.candidate(2), make.candidate(3)
    archive.add_result("run-1", ok, make.ok(ok))
    archive.add_result("run-1", wrong, make.failed(wrong))
    archive.add_result("run-1", lost, make.failed(lost, "error"))
    keys = archive.index_judged_results(make.task.id, "cpu", make.environment.id)
    assert set(keys) == {ok.content_key, wrong.content_key}
    assert keys[wrong.content_key].status == "incorrect"
    assert archive.index_judged_results(make.task.id, "cpu", "another") == {}


def test_winners_are_confirmed_fastest_first_and_this_environment_first(begun, make):
    archive = begun()
    other = make.environment.model_copy(update={"cpu": "Other CPU"})
    slow, fast, unconfirmed, elsewhere = (make.candidate(n) for n in range(4))
    for candidate, speedup in ((slow, 1.2), (fast, 2.0)):
        archive.add_result("run-1", candidate, make.ok(candidate, speedup))
        archive.add_confirmation("run-1", candidate, make.ok(candidate, speedup, confirmed=True))
    archive.add_result("run-1", unconfirmed, make.ok(unconfirmed, 9.0))
    there = make.ok(elsewhere, 5.0, confirmed=True).model_copy(update={"environment": other.id})
    archive.add_confirmation("run-1", elsewhere, there)
    won = archive.winners(make.task.id, "cpu", make.environment.id)
    assert [e.candidate.content_key for e in won] == [c.content_key for c in (fast, slow, elsewhere)]
    assert archive.winners(make.task.id, "cpu", other.id)[0].candidate == elsewhere


@pytest.mark.parametrize("later", ["slower", "incorrect"])
def test_a_later_failure_outweighs_an_earlier_confirmation(begun, make, later):
    archive = begun()
    candidate = make.candidate()
    archive.add_confirmation("run-1", candidate, make.ok(candidate, 1.5, confirmed=True))
    assert len(archive.winners(make.task.id, "cpu")) == 1
    again = make.ok(candidate, 0.9, confirmed=True, seed=1) if later == "slower" else make.failed(candidate)
    archive.add_result("run-1", candidate, again)
    assert archive.winners(make.task.id, "cpu") == []


def test_an_unconfirmed_measurement_is_no_confirmation(begun, make):
    candidate = make.candidate()
    with pytest.raises(ArchiveError, match="not measured again"):
        begun().add_confirmation("run-1", candidate, make.ok(candidate))


def test_stepping_stones_are_found_by_signature_across_tasks(begun, make):
    archive = begun()
    other = make.task.model_copy(update={"name": "relu again"})
    archive.begin_run("run-2", other, "cpu", 7, {}, make.environment)
    here, wrong = make.candidate(1), make.candidate(2)
    there = make.candidate(3).model_copy(update={"task_id": other.id})
    unrelated = make.candidate(4, signature="other")
    for run, candidate, result in (
        ("run-1", here, make.ok(here, 1.2)), ("run-2", there, make.ok(there, 1.8)),
        ("run-1", wrong, make.failed(wrong)), ("run-1", unrelated, make.ok(unrelated, 3.0)),
    ):  # fmt: skip
        archive.add_result(run, candidate, result)
    assert [e.candidate for e in find_sound_entries(archive, "relu|f32|r2", "cpu")] == [there, here]
    assert find_sound_entries(archive, "relu|f32|r2", "cuda") == []


def test_the_fastest_that_failed_since_are_passed_over(begun, make):
    archive, slow = begun(), make.candidate(0)
    archive.add_result("run-1", slow, make.ok(slow, 1.1))
    for number in range(1, 7):  # more than are looked at together
        fast = make.candidate(number)
        archive.add_result("run-1", fast, make.ok(fast, 2.0 + number))
        archive.add_result("run-1", fast, make.failed(fast))
    assert [e.candidate for e in find_sound_entries(archive, "relu|f32|r2", "cpu", limit=1)] == [slow]


def test_lineage_goes_up_and_down(begun, make):
    archive = begun()
    a = make.candidate(1)
    b, c = make.candidate(2, (a.id,)), make.candidate(3, (a.id,))
    d = make.candidate(4, (b.id, c.id, "unknown"))
    for candidate in (a, b, c, d):
        archive.add_candidate(candidate)
    assert {x.id for x in archive.ancestors(d.id)[:2]} == {b.id, c.id}
    assert [x.id for x in archive.ancestors(d.id)][2:] == [a.id]
    assert {x.id for x in archive.children(a.id)} == {b.id, c.id}
    assert archive.ancestors(a.id) == []


def test_a_run_keeps_what_it_measured_and_how_it_ended(begun, make):
    archive = begun()
    limit = Limit(
        seconds=1e-5,
        least_bytes=1024,
        flops=128,
        bytes_per_second=1e10,
        flops_per_second=1e11,
        bound="memory",
    )
    baselines = [BaselineTiming(name="eager", ok=True, median_us=50, low_us=49, high_us=51)]
    archive.note_run("run-1", baselines=baselines)
    archive.note_run("run-1", limit=limit, admission=Admission(admitted=True, mutants={"zeros": "budget"}))
    run = archive.run("run-1")
    assert (run.baselines, run.limit, run.admission.mutants) == (tuple(baselines), limit, {"zeros": "budget"})
    assert not run.finished
    assert run.config == {"budget": 60}
    summary = RunSummary(run_id="run-1", task="relu", target="cpu", status="failed", reason="nothing valid")
    archive.finish_run(summary)
    assert archive.run("run-1").summary == summary


def test_shares_are_by_the_limit_of_the_run_that_shows_them(begun, make):
    """It was judged by the first limit; its run ended with the second; another run that reused it has the third."""
    first, second, third = (
        Limit(
            seconds=s, least_bytes=1024, flops=128, bytes_per_second=1024 / s, flops_per_second=1e11, bound="memory"
        )
        for s in (4e-5, 2e-5, 1e-5)
    )  # fmt: skip
    archive, candidate = begun(), make.candidate()
    begun("run-2")
    judged = make.ok(candidate, confirmed=True)
    judged = judged.model_copy(update={"timing": judged.timing.restate(first)})
    archive.add_confirmation("run-1", candidate, judged)
    archive.add_result("run-2", candidate, judged, kind="reused")
    for run, limit in (("run-1", second), ("run-2", third)):
        archive.note_run(run, limit=limit)

    def limits(entries):
        assert [e.result.id for e in entries] == [judged.id]
        assert all(e.result.timing.limit_share == e.result.timing.limit.share(100 / 1.5) for e in entries)
        return [e.result.timing.limit for e in entries]

    assert limits(archive.run_entries("run-1")) == [second]
    assert limits(archive.run_entries("run-1", as_judged=True)) == [first]
    assert limits(archive.run_entries("run-2")) == [third]
    assert limits(archive.list_kind("winners")) == [second], "elsewhere by that of the run that judged it"
    assert limits(archive.results(make.task.id, "cpu")) == [second]
    index = archive.index_judged_results(make.task.id, "cpu", make.environment.id)
    assert index[candidate.content_key].timing.limit == second


def test_runs_are_newest_first_and_found_by_prefix(begun, make):
    archive = begun("abc-1")
    begun("abc-2")
    assert [r.run_id for r in archive.runs()] == ["abc-2", "abc-1"]
    assert archive.run().run_id == "abc-2"
    assert archive.run("abc-1").task_name == "relu"
    for wrong, message in (("abc", "more than one"), ("zzz", "no run zzz"), ("%", "no run %")):
        with pytest.raises(ArchiveError, match=message):
            archive.run(wrong)


def test_an_empty_archive_has_no_run(archive):
    with pytest.raises(ArchiveError, match="no runs yet"):
        archive.run()
    with pytest.raises(ArchiveError, match="no run x"):
        archive.note_run("x", baselines=[])


def test_a_run_is_resumed_only_when_its_process_is_gone_and_only_once(begun, make):
    archive = begun()
    key = config_key({"budget": 60})
    assert archive.take_unfinished_run(make.task.id, "cpu", key) is None  # this process is alive
    archive.release_run("run-1")
    assert archive.take_unfinished_run(make.task.id, "cpu", "other config") is None
    assert archive.take_unfinished_run(make.task.id, "cpu", key).run_id == "run-1"
    assert archive.take_unfinished_run(make.task.id, "cpu", key) is None  # taken
    archive.release_run("run-1")
    archive.finish_run(RunSummary(run_id="run-1", task="relu", target="cpu", status="no-win"))
    assert archive.take_unfinished_run(make.task.id, "cpu", key) is None


def test_changed_content_is_noticed(begun, make, sql):
    archive = begun()
    candidate = make.candidate()
    archive.add_result("run-1", candidate, make.ok(candidate))
    sql("UPDATE units SET record = replace(record, 'version 0', 'version 9')")
    with pytest.raises(ArchiveError, match="does not match its content"):
        archive.candidate(candidate.id)


def test_retrieval_by_task_and_signature_uses_an_index(archive, sql):
    plans = {
        "SELECT * FROM results WHERE task_id = 'x' AND target = 'cpu'": "ix_results_",
        "SELECT * FROM units WHERE signature = 'x'": "ix_units_signature",
        "SELECT * FROM candidate_units WHERE unit_id = 'x'": "ix_candidate_units_unit_id",
        "SELECT * FROM results WHERE candidate_id = 'x'": "ix_results_stones",
        "SELECT * FROM runs WHERE task_id = 'x' AND target = 'cpu' AND config_key = 'k'": "ix_runs_task",
    }
    if archive.name.startswith("postgresql"):
        pytest.skip("PostgreSQL reads a table of few rows whole, whatever its indexes")
    for query, index in plans.items():
        plan = " ".join(str(row[3]) for row in sql(f"EXPLAIN QUERY PLAN {query}"))
        assert index in plan, plan


def test_an_environment_is_kept_once(begun, make):
    archive = begun("a")
    begun("b")
    assert archive.counts()["environments"] == 1
    assert isinstance(archive.run("b").environment, Environment)


def test_a_sqlite_url_is_a_path(tmp_path: Path):
    assert Archive(f"sqlite:///{tmp_path}/u.db").path == tmp_path / "u.db"
    with pytest.raises(ArchiveError, match="mysql archives are not supported"):
        Archive("mysql://host/db")

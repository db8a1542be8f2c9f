"""What a training set takes from an archive, and what it leaves."""

from __future__ import annotations

import json

import pytest
from sample_archive import THERE, SampleArchive

from warpsmith.archive import Archive, export_jsonl, import_jsonl
from warpsmith.records import Lineage
from warpsmith.sharing.examples import Source, pairs, preferences, trajectories
from warpsmith.sharing.licenses import Licenses, join_licenses
from warpsmith.sharing.units import code_hash, normalise_source


def source(archive: Archive, imported: bool = False) -> Source:
    return Source(archive, Licenses(archive, "MIT"), imported)


def taught(sample: SampleArchive) -> list[tuple[str, str, str]]:
    """(better, worse, reason) of every preference, by the word that tells a candidate apart."""
    found = [e.row for e in preferences(source(sample.archive))]
    return [(word(r["chosen"]), word(r["rejected"]), r["reason"]) for r in found]


def word(text: str) -> str:
    return text.strip().splitlines()[-1].removeprefix("int ").removesuffix(";")


def test_a_pair_is_the_best_unit_of_a_region(sample):
    sample.standard("t", "exp", "neg")
    (pair,) = pairs(source(sample.archive))
    row = pair.row
    assert word(row["completion"]) == "t_best"
    assert "// tunable: VEC = 4 {2, 4}" in row["completion"]  # as it was measured
    assert (row["speedup"], row["confirmed"], row["origin"]) == (2.01, True, "local")
    assert json.loads(row["tunables"]) == {"VEC": 4}
    assert "class Model" in row["prompt"]
    assert "n1 = aten.neg.default(n0)" in row["prompt"]
    assert "in0 = x: float32 [4, 8], contiguous" in row["prompt"]
    assert "t_best" not in row["prompt"]


def test_preferences_are_between_intervals_that_do_not_touch_and_of_failures(sample):
    sample.standard("t", "exp", "neg")
    assert taught(sample) == [
        ("t_best", "t_slow", "faster"),  # not over t_close: 1.99 and 2.01 with 2% each may be equal
        ("t_close", "t_slow", "faster"),
        ("t_slow", "t_bad", "correct"),  # its parent, though others are faster
    ]


def test_without_a_correct_parent_the_best_is_preferred(sample):
    task = sample.task("t", "exp")
    run = sample.begin(task)
    good, bad, lost = (sample.candidate(task, f"int {name};") for name in ("good", "bad", "lost"))
    sample.judge(run, bad, "crashed")
    sample.judge(run, good, 1.5)
    sample.judge(run, lost, "error")  # the judge failed, not the candidate
    assert taught(sample) == [("good", "bad", "correct")]


def test_a_later_failure_outweighs_and_a_mere_measurement_does_not(sample):
    task = sample.task("t", "exp")
    run = sample.begin(task)
    fast, slow = sample.candidate(task, "int fast;"), sample.candidate(task, "int slow;")
    sample.judge(run, fast, 3.0, confirmed=True)
    sample.judge(run, slow, 1.5)
    sample.judge(run, fast, 5.0)
    (pair,) = pairs(source(sample.archive))
    assert (word(pair.row["completion"]), pair.row["speedup"]) == ("fast", 3.0)
    sample.judge(run, fast, "incorrect", confirmed=True)
    (pair,) = pairs(source(sample.archive))
    assert word(pair.row["completion"]) == "slow"


def test_a_unit_for_another_graph_is_left_out(sample):
    task, larger = sample.task("t", "exp"), sample.task("larger", "exp", "neg")
    run = sample.begin(task)
    strange = sample.candidate(larger, "int strange;").model_copy(update={"task_id": task.id})
    sample.judge(run, strange, 4.0)
    sample.judge(run, sample.candidate(task, "int good;"), 1.5)
    assert [word(e.row["completion"]) for e in pairs(source(sample.archive))] == ["good"]
    assert taught(sample) == []


def test_machines_are_not_compared(sample):
    task = sample.task("t", "exp")
    here, there = sample.begin(task), sample.begin(task, THERE)
    sample.judge(here, sample.candidate(task, "int a;"), 2.0)
    sample.judge(there, sample.candidate(task, "int b;"), 4.0, environment=THERE)
    assert {(word(e.row["completion"]), e.row["hardware"]) for e in pairs(source(sample.archive))} == {
        ("a", "Test CPU"), ("b", "Other CPU"),
    }  # fmt: skip
    assert taught(sample) == []


@pytest.mark.parametrize("make", [pairs, preferences, trajectories])
def test_a_quarantined_task_teaches_nothing(sample, make):
    run = sample.standard("t", "exp")
    assert list(make(source(sample.archive))) != []
    sample.quarantine(run)
    assert list(make(source(sample.archive))) == []


@pytest.mark.parametrize("make", [pairs, preferences, trajectories])
def test_imported_results_are_taken_when_asked_for(sample, tmp_path, make):
    sample.standard("t", "exp")
    export_jsonl(sample.archive, tmp_path / "all.jsonl")
    there = Archive(tmp_path / "there.db")
    import_jsonl(there, tmp_path / "all.jsonl")
    assert list(make(source(there))) == []
    taken = [e.row for e in make(source(there, imported=True))]
    assert {(r["origin"], r["license"]) for r in taken} == {("imported", "unknown")}


def test_a_trajectory_is_the_run_with_its_rewards(sample):
    run = sample.standard("t", "exp")
    (found,) = trajectories(source(sample.archive))
    steps = found.row["steps"]
    assert (found.row["run_id"], found.row["outcome"], found.row["seed"]) == (run, "win", 7)
    assert [s["number"] for s in steps] == [1, 2, 3, 4, 5]
    assert [s["status"] for s in steps] == ["ok", "incorrect", "ok", "ok", "ok"]
    low = [0.98 * s for s in (1.2, 0.0, 1.99, 2.0, 2.01)]
    assert [s["reward"] for s in steps] == pytest.approx(low)
    assert [s["best"] for s in steps] == pytest.approx([low[0], low[0], low[2], low[3], low[4]])
    assert found.row["reward"] == pytest.approx(low[4])
    assert steps[3]["evidence"] == "ATen takes 3 passes\n1 would do"
    assert steps[3]["parents"] == steps[1]["candidate_id"]
    assert steps[4]["kind"] == "confirmation"


def test_a_candidate_inherits_the_licences_of_its_parents(sample, tmp_path):
    task = sample.task("t", "exp")
    run = sample.begin(task)
    theirs = sample.candidate(task, "int theirs;")
    sample.judge(run, theirs, 1.5)
    from warpsmith.sharing.importing import import_file
    from warpsmith.sharing.kernels import export_parquet

    export_parquet(sample.archive, tmp_path / "a.parquet", "CC-BY-4.0")
    other = SampleArchive(tmp_path / "other.db")
    import_file(other.archive, tmp_path / "a.parquet")
    own = sample.candidate(task, "int own;")
    child = own.model_copy(update={"lineage": Lineage(parents=(theirs.id,), operator="rewrite")})
    other.runs = 1
    run = other.begin(task)
    other.judge(run, own.model_copy(update={"units": sample.candidate(task, "int alone;").units}), 1.1)
    other.judge(run, child, 3.0)
    licenses = Licenses(other.archive, "MIT")
    assert licenses.find_license(child.id, imported=False) == "CC-BY-4.0 AND MIT"
    assert licenses.find_license(theirs.id, imported=True) == "CC-BY-4.0"
    (pair,) = pairs(source(other.archive))
    assert (word(pair.row["completion"]), pair.row["license"]) == ("own", "CC-BY-4.0 AND MIT")


def test_licences_are_joined_each_once():
    assert join_licenses(["MIT", "Apache-2.0 AND MIT", "A OR B"]) == "(A OR B) AND Apache-2.0 AND MIT"


def test_copies_are_found_whatever_their_layout_and_comments(sample):
    assert normalise_source("int  a = 1; // x\n/* y */return a+ b;") == normalise_source(
        "int a=1;return a + b ;"
    )
    assert normalise_source('p("a // b");') != normalise_source('p("a ");')
    assert normalise_source("int ab;") != normalise_source("int a b;")
    assert normalise_source('s = R"x(a // b)x"; // c') == normalise_source('s=R"x(a // b)x";')
    for unclosed in ('"a', "'a", '\\"', "/* a", 'R"(a'):
        normalise_source(unclosed * 100_000)  # in one pass: squared, it would not end in time
    task = sample.task("t", "exp")
    one, other = sample.candidate(task, "int a;  // x"), sample.candidate(task, "int   a;", value=4)
    assert code_hash(one.units[0]) == code_hash(other.units[0])

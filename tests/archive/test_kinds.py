"""Winners, stepping stones, quarantined and failed results are apart, and kernels are found by words."""

from __future__ import annotations

import pytest

from warpsmith.archive.exemplars import find_sound_entries
from warpsmith.archive.text_index import words
from warpsmith.archive.views import KINDS
from warpsmith.records import Admission

QUARANTINED = Admission(admitted=False, mutants={}, reasons=("zeros pass",))


@pytest.fixture
def mixed(begun, make):
    """Each kind of result once; the quarantined one is a confirmed win of another task."""
    archive = begun()
    won, stone, failed, cheat, screened = (make.candidate(n) for n in range(5))
    archive.add_result("run-1", screened, make.screened(screened, 9.0))
    archive.add_result("run-1", won, make.ok(won, 2.0))
    archive.add_confirmation("run-1", won, make.ok(won, 2.0, confirmed=True))
    archive.add_result("run-1", stone, make.ok(stone, 1.2))
    archive.add_result("run-1", failed, make.failed(failed))
    other = make.task.model_copy(update={"name": "cheatable"})
    archive.begin_run("run-2", other, "cpu", 7, {}, make.environment)
    cheat = cheat.model_copy(update={"task_id": other.id})
    archive.add_confirmation("run-2", cheat, make.ok(cheat, 9.0, confirmed=True))
    archive.note_run("run-2", admission=QUARANTINED)
    return archive


def test_every_result_is_of_one_kind(mixed):
    kinds = {kind: [e.candidate.units[0].technique for e in mixed.list_kind(kind)] for kind in KINDS}
    assert kinds == {
        "winners": ["v0"],
        "stones": ["v1", "v0"],
        "screened": ["v4"],
        "quarantined": ["v3"],
        "failed": ["v2"],
    }
    assert mixed.kind_counts() == {"winners": 1, "stones": 2, "screened": 1, "quarantined": 1, "failed": 1}
    assert sum(mixed.kind_counts().values()) == mixed.counts()["results"]


def test_kinds_of_one_task(mixed, make):
    assert mixed.kind_counts(make.task.id) == {
        "winners": 1,
        "stones": 2,
        "screened": 1,
        "quarantined": 0,
        "failed": 1,
    }
    assert mixed.list_kind("quarantined", make.task.id) == []
    assert mixed.list_kind("winners", make.task.id, target="cuda") == []
    assert len(mixed.list_kind("stones", limit=1)) == 1


def test_the_views_have_names_of_their_own(mixed, sql):
    for view, count in (
        ("winners", 1),
        ("stepping_stones", 2),
        ("screened", 1),
        ("quarantined", 1),
        ("failed", 1),
    ):
        assert sql(f"SELECT count(*) FROM {view}") == [(count,)]


@pytest.mark.parametrize("later", ["slower", "incorrect"])
def test_a_contradicted_winner_is_one_no_more(mixed, make, later):
    won = make.candidate(0)
    again = make.ok(won, 0.9, confirmed=True, seed=1) if later == "slower" else make.failed(won)
    mixed.add_result("run-1", won, again)
    assert mixed.list_kind("winners") == []


def test_what_is_screened_later_takes_no_winners_place_and_is_no_kernel_to_build_on(mixed, make):
    won = make.candidate(0)
    mixed.add_result("run-1", won, make.screened(won))
    assert [e.candidate.id for e in mixed.list_kind("winners")] == [won.id]
    assert [e.candidate.id for e in mixed.winners(make.task.id, "cpu")] == [won.id]
    assert "v4" not in {e.candidate.units[0].technique for e in mixed.find("version")}


def test_a_quarantined_task_gives_no_stepping_stones(mixed):
    assert {e.candidate.units[0].technique for e in mixed.find("version")} == {"v0", "v1"}
    assert {e.candidate.units[0].technique for e in find_sound_entries(mixed, "relu|f32|r2", "cpu")} == {
        "v0",
        "v1",
    }
    mixed.note_run("run-2", admission=Admission(admitted=True, mutants={}))
    assert "v3" in {e.candidate.units[0].technique for e in find_sound_entries(mixed, "relu|f32|r2", "cpu")}


def test_kernels_are_found_by_words_all_before_any(begun, make):
    archive = begun()
    texts = ("// online softmax\n", "// softmax, twoPass\n", "// layer_norm\n", "// OnlineSoftmax again\n")
    for n, text in enumerate(texts):
        candidate = make.candidate(n, noise=text)
        archive.add_result("run-1", candidate, make.ok(candidate, 1.0 + n))
    found = [e.candidate.units[0].technique for e in archive.find("online softmax")]
    assert sorted(found[:2]) == ["v0", "v3"]
    assert found[2:] == ["v1"]
    assert [e.candidate.units[0].technique for e in archive.find("norm")] == ["v2"]
    assert archive.find("convolution") == []
    assert archive.find("") == archive.find("\"' OR * & | !") == []
    assert archive.find("softmax", target="cuda") == []
    assert len(archive.find("softmax", limit=1)) == 1


def test_a_unit_that_only_failed_is_not_found_and_the_fastest_result_is(begun, make):
    archive, failed, twice = begun(), make.candidate(1, noise="// rsqrt"), make.candidate(2, noise="// rsqrt")
    archive.add_result("run-1", failed, make.failed(failed))
    for seed, speedup in enumerate((1.1, 1.9, 1.4)):
        archive.add_result("run-1", twice, make.ok(twice, speedup, seed=seed))
    (found,) = archive.find("rsqrt")
    assert found.result.speedup.median == 1.9


def test_names_are_split_where_their_parts_meet():
    assert words("static float loadRow(vec_load8, aten._softmax.default) // HTTPServer x") == [
        "load", "row", "vec", "load8", "aten", "softmax", "http", "server",
    ]  # fmt: skip
    assert words("a" * 50) == []

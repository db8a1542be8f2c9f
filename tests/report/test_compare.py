"""Two outcomes side by side: sure is sure, noise is noise, and what is missing on a side is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sample import RUN, winning_run
from suite_sample import ratio, summary

from warpsmith.archive import Archive
from warpsmith.errors import ArchiveError, UsageError
from warpsmith.records import RunSummary
from warpsmith.report.compare import compare_sides, compare_task
from warpsmith.report.comparison_page import comparison_page
from warpsmith.report.pages import WRITERS, write
from warpsmith.report.sides import Side, read_side
from warpsmith.report.suite import suite_json


def side(name: str, *summaries: RunSummary) -> Side:
    return Side(name, summaries)


def test_who_is_surely_faster_and_who_perhaps():
    base = summary("t", 2.0)
    rows = [compare_task(base, summary("t", speed)) for speed in (3.0, 2.1, 1.2)]
    assert [r.faster for r in rows] == ["B", "not sure", "A"]
    assert rows[0].ratio.median == pytest.approx(1.5)
    assert rows[0].ratio.low > 1
    swapped = compare_task(summary("t", 3.0), base)
    assert swapped.faster == "A"
    assert swapped.ratio.high == pytest.approx(1 / rows[0].ratio.low)


def test_equal_sides_are_never_sure():
    same = side("x", *(summary(f"t{i}", 1.5 + i) for i in range(5)))
    found = compare_sides(same, same)
    assert (found.surely_a, found.surely_b) == (0, 0)
    assert found.verified.ratio == pytest.approx(1.0)
    assert found.deployed.ratio == pytest.approx(1.0)


def test_both_are_measured_over_one_shared_baseline():
    """The best baselines differ: over each one's own, B would look slower."""
    a = summary("t", 2.0, eager=4.0)
    b = summary("t", 1.5, eager=6.0)
    over = ratio("compile-max-autotune", 1.5)
    b = b.model_copy(
        update={"best": b.best.model_copy(update={"speedup": over, "ratios": (over, b.best.speedup_eager)})}
    )
    row = compare_task(a, b)
    assert row.a.baseline == row.b.baseline == "eager"
    assert row.ratio.median == pytest.approx(1.5)


def test_the_rewritten_reference_is_not_shared():
    over = ratio("rewritten", 1.2)
    sides = [
        s.model_copy(update={"best": s.best.model_copy(update={"speedup": over, "ratios": (over,)})})
        for s in (summary("t", 2.0, eager=4.0), summary("t", 2.0, eager=8.0))
    ]
    assert compare_task(*sides).a.baseline == "eager"


def test_means_of_what_is_verified_and_of_what_a_user_gets():
    a = side("a", summary("x", 2.0), summary("y", 0.5), summary("z", None))
    b = side("b", summary("x", 4.0), summary("y", 2.0), summary("z", 3.0))
    found = compare_sides(a, b)
    assert (found.verified.tasks, found.deployed.tasks) == (2, 3)
    assert found.verified.ratio == pytest.approx((2 * 4) ** (1 / 2))
    assert found.deployed.ratio == pytest.approx((2 * 2 * 3) ** (1 / 3))
    assert found.deployed.low < found.deployed.ratio < found.deployed.high
    assert [t.task for t in found.tasks if t.changed] == ["y", "z"]
    assert [t.faster for t in found.tasks] == ["B", "B", ""]


def test_tasks_on_one_side_only_and_quarantined_ones_are_told():
    lost = summary("q", 9.0, status="no-win", admitted=False)
    found = compare_sides(
        side("a", summary("x", 2.0), summary("only", 2.0), lost), side("b", summary("x", 2.0), lost)
    )
    assert (found.only_a, found.only_b) == (("only",), ())
    assert [(t.task, t.status_a, t.faster) for t in found.tasks] == [
        ("x", "win", "not sure"), ("q", "quarantined", "")
    ]  # fmt: skip


def test_other_machines_and_other_shapes_are_warned_of():
    a = summary("x", 2.0)
    assert compare_sides(side("a", a), side("b", a)).warnings == ()
    elsewhere = compare_sides(side("a", a), side("b", summary("x", 2.0, hardware="Other CPU")))
    assert any("different machines: Example CPU; Other CPU" in w for w in elsewhere.warnings)
    slower = compare_sides(side("a", a), side("b", summary("x", 2.0, baselines={"compile": 900.0})))
    assert any("x: 4.5 times" in w for w in slower.warnings)


def test_tasks_of_levels_meet_their_bare_names_if_these_tell_them_apart():
    levels = side("a", summary("level1/1_x", 2.0), summary("level2/2_y", 2.0))
    found = compare_sides(levels, side("b", summary("1_x", 3.0)))
    assert [t.task for t in found.tasks] == ["level1/1_x"]
    assert found.only_a == ("2_y",)
    twins = side("a", summary("level1/1_x", 2.0), summary("level2/1_x", 2.0))
    assert compare_sides(twins, side("b", summary("1_x", 3.0))).tasks == ()
    assert len(compare_sides(twins, twins).tasks) == 2


def test_no_common_task_is_an_answer_too():
    found = compare_sides(side("a", summary("x", 2.0)), side("b", summary("y", 2.0)))
    assert (found.tasks, found.verified.tasks, found.only_b) == ((), 0, ("y",))
    assert all(write(comparison_page(found), format) for format in WRITERS)


def test_every_format_names_tasks_and_verdicts():
    page = comparison_page(compare_sides(side("a", summary("x|y", 2.0)), side("b", summary("x|y", 3.0))))
    for format in WRITERS:
        text = write(page, format).replace("\\", "")
        assert "x|y" in text
    assert "B surely faster on 1" in write(page, "text")
    assert write(page, "csv").splitlines()[1].endswith(",B")


# ---------------------------------------------------------------- what a side may be


def test_sides_are_json_files_archives_and_runs(tmp_path: Path):
    suite = [summary("a", 2.0), summary("b", None)]
    (tmp_path / "suite.json").write_text(suite_json(suite))
    (tmp_path / "one.json").write_text(suite[0].model_dump_json())
    (tmp_path / "list.out").write_text(json.dumps([s.model_dump(mode="json") for s in suite]))
    archive = winning_run(tmp_path / "archive.db")

    def read(what: str) -> list[str]:
        return [s.task for s in read_side(what, lambda: archive).summaries]

    assert read(str(tmp_path / "suite.json")) == ["a", "b"]
    assert read(str(tmp_path / "one.json")) == ["a"]
    assert read(str(tmp_path / "list.out")) == ["a", "b"]
    assert read(str(tmp_path / "archive.db")) == ["softmax"]
    assert read(RUN[:6]) == ["softmax"]


def test_what_cannot_be_compared_is_one_line(tmp_path: Path):
    (tmp_path / "bad.json").write_text('{"tasks": 3}')
    (tmp_path / "worse.json").write_text("{")
    (tmp_path / "empty.json").write_text("[]")
    archive = Archive(tmp_path / "new.db")
    for what, words in (
        ("bad.json", "no JSON that"), ("worse.json", "no JSON that"), ("empty.json", "no task"),
        ("new.db", "no finished run"), ("typo.json", "neither a file"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=words) as told:
            read_side(str(tmp_path / what), lambda: archive)
        assert "\n" not in str(told.value)
    with pytest.raises(ArchiveError, match="no run abc"):
        read_side("abc", lambda: archive)

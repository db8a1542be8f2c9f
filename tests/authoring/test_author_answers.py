"""What authors hand in: what becomes a candidate, and what is said of the rest."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.authoring.answers import (
    MAX_SOURCE_BYTES,
    MAX_UNITS,
    Answer,
    add_covers,
    make_candidate,
    read_answer,
    read_covers,
)
from warpsmith.authoring.regions import propose_regions, resolve
from warpsmith.errors import UsageError
from warpsmith.testing import chain_graph, chain_task

TASK = chain_task(("aten.exp.default", "aten.neg.default", "aten.abs.default"))
UNIT = "// warpsmith-unit: 1\n// technique: plain\n// tunable: UNROLL = 2 {1, 2, 4}\nstatic void unit() {}\n"


def answer(source: str = UNIT, region: str = "", name: str = "unit") -> Answer:
    return Answer(source=source, region=region, name=name)


def test_a_unit_becomes_a_candidate_with_its_author() -> None:
    found = make_candidate(
        TASK, "cpu", [answer(region="n0, n1")], author="Ada\nLovelace", note="fewer passes"
    )
    assert [u.region.nodes for u in found.units] == [("n0", "n1")]
    assert found.units[0].values == {"UNROLL": 2}
    assert found.units[0].language == "c++"
    made = found.lineage
    assert (made.operator, made.agent, made.model, made.reason) == (
        "given",
        "author",
        "Ada Lovelace",
        "fewer passes",
    )
    assert make_candidate(TASK, "cuda", [answer()]).units[0].language == "cuda"


def test_a_region_is_named_by_the_call_or_the_source_or_is_all() -> None:
    here = add_covers(UNIT, "n1")
    assert read_covers(here) == "n1"
    assert here.startswith("// warpsmith-unit: 1\n")
    for given_answer, nodes in (
        (answer(here), ("n1",)),
        (answer(here, region="n2"), ("n2",)),
        (answer(), ("n0", "n1", "n2")),
        (answer(region="all"), ("n0", "n1", "n2")),
    ):
        assert make_candidate(TASK, "cpu", [given_answer]).units[0].region.nodes == nodes
    assert read_covers("// warpsmith-unit: 1\nint x;\n// covers: n1\n") == ""


def test_units_are_put_in_graph_order_and_onto_another_candidate() -> None:
    old = make_candidate(TASK, "cpu", [answer(region="n0"), answer(region="n1")])
    new = make_candidate(TASK, "cpu", [answer(region="n2"), answer(UNIT + "\n", region="n1")], onto=old)
    assert [u.region.nodes for u in new.units] == [("n0",), ("n1",), ("n2",)]
    assert new.units[0] == old.units[0]
    assert new.units[1].source == UNIT + "\n"
    assert new.lineage.parents == (old.id,)


def test_onto_another_task_is_refused() -> None:
    other = make_candidate(chain_task(("aten.exp.default",)), "cpu", [answer()])
    with pytest.raises(UsageError, match="another task"):
        make_candidate(TASK, "cpu", [answer(region="n1")], onto=other)


@pytest.mark.parametrize(
    ("given_answer", "says"),
    [
        (answer(""), "unit is empty"),
        (answer("int x;\n"), "unit, line 1: a unit's source starts with"),
        (answer(UNIT.replace("tunable:", "tunabel:")), "unit, line 3: 'tunabel:' is not a key"),
        (answer(UNIT + "\x00"), r"no source has: U\+0000"),
        (answer(UNIT + "\ud800"), r"no source has: U\+D800"),
        (answer(UNIT + "x" * MAX_SOURCE_BYTES), "larger than 256 KiB"),
        (answer(region="n9"), "no node 'n9'"),
        (answer(region="99"), "there is no region 99: the proposed ones are 1 to"),
        (answer(region="n0 n2"), "not connected|not convex"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(given_answer: Answer, says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        make_candidate(TASK, "cpu", [given_answer])
    assert len(str(caught.value).splitlines()) == 1


def test_units_for_the_same_node_are_not_one_candidate() -> None:
    two = [answer(region="n0,n1", name="a.cpp"), answer(region="n1", name="b.cpp")]
    with pytest.raises(UsageError, match=r"b\.cpp and a\.cpp cover the same node n1"):
        make_candidate(TASK, "cpu", two)
    with pytest.raises(UsageError, match="1 to 16 units"):
        make_candidate(TASK, "cpu", [answer()] * (MAX_UNITS + 1))


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=200), st.text(max_size=40))
def test_no_text_is_more_than_a_usage_error(source: str, region: str) -> None:
    for text in (
        source,
        f"// warpsmith-unit: 1\n// covers: {source}",
        f"// warpsmith-unit: 1\n// {source}\n",
    ):
        try:
            make_candidate(TASK, "cpu", [answer(text, region)])
        except UsageError as error:
            assert len(str(error).splitlines()) == 1  # noqa: PT017


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "latin.cpp").write_bytes(b"// warpsmith-unit: 1\n// \xe9\n")
    (tmp_path / "large.cpp").write_bytes(b"\xe2\x82\xac" * MAX_SOURCE_BYTES)
    for name, says in (
        ("none.cpp", "is not a file"),
        ("latin.cpp", "not UTF-8"),
        ("large.cpp", "larger than"),
    ):
        with pytest.raises(UsageError, match=says):
            make_candidate(TASK, "cpu", [read_answer(tmp_path / name)])


def test_a_number_means_what_was_proposed() -> None:
    graph = chain_graph(("aten.exp.default", "aten.neg.default"))
    known = propose_regions(graph)
    assert known[-1].nodes == ("n0", "n1")
    for number, region in enumerate(known, 1):
        assert resolve(graph, str(number)) == region

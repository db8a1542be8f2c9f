"""What is read out of a model's answer, and that no answer does anything else than be read or refused."""

import time
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llm_fakes import GOOD, block, whole

from warpsmith.agents.llm.answers import (
    Problem,
    edits,
    find_fenced_blocks,
    one_line,
    read_json,
    read_source,
    read_unit,
)
from warpsmith.records import Unit

REGION = whole()
PARENT = Unit(region=REGION, language="c++", source=GOOD)


def test_a_unit_in_a_fenced_block_is_read_with_its_front_matter() -> None:
    unit = read_unit(f"Sure!\n{block(GOOD)}\nIt is 1000 times faster.", REGION, "c++")
    assert (unit.source, unit.technique, unit.values) == (GOOD, "one pass", {"UNROLL": 2})


def test_other_blocks_beside_the_unit_are_ignored() -> None:
    assert read_source(f"```python\nprint('speedup 1000')\n```\n{block(GOOD)}") == GOOD


def test_a_unit_without_fences_is_read() -> None:
    assert read_source(GOOD) == GOOD


def test_longer_fences_hold_shorter_ones() -> None:
    source = GOOD + "// ```\n"
    assert read_source(f"~~~~cpp\n{source}~~~~\n") == source


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("", "no fenced code block"),
        ("I cannot help with that.", "no fenced code block"),
        (block("int main() {}\n"), "begins with the line"),
        (block(GOOD) + block(GOOD), "2 unit files"),
        ("```cpp\n" + GOOD, "not closed"),
        (block(GOOD.replace("tunable: UNROLL = 2", "tunable: UNROLL = 3")), "front matter"),
        (block(GOOD.replace("2 {1, 2, 4}", "9" * 5000 + " {1}")), "front matter"),
        (block(GOOD.replace(", void* stream", "")), "takes 3 parameters, but task.h declares 4"),
        (block(GOOD.replace("unit(", "kernel(")), "no `static void unit"),
        (block(GOOD.replace('#include "task.h"', "")), "task.h"),
        (block(GOOD.replace('"task.h"', "<torch/extension.h>")), "no torch"),
        ("x" * 2_000_000, "2000000 characters"),
        ("\ud800" + block(GOOD), "Unicode"),
        ("<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE", "no parent"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(answer: str, says: str) -> None:
    with pytest.raises(Problem) as problem:
        read_unit(answer, REGION, "c++")
    assert says in str(problem.value)
    assert "\n" not in str(problem.value)
    assert len(str(problem.value)) < 500


def edit(search: str, replace: str) -> str:
    return f"<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE\n"


def test_edits_change_the_parent() -> None:
    answer = edit("= 2 {1, 2, 4}", "= 4 {1, 2, 4}") + edit("out0[i] = in0[i];", "out0[i] = -in0[i];")
    unit = read_unit(answer, REGION, "c++", PARENT)
    assert unit.values == {"UNROLL": 4}
    assert "-in0[i]" in unit.source


@pytest.mark.parametrize(
    ("search", "says"),
    [("not there", "is not in the parent"), ("in0", "times in the parent"), ("", "not in")],
)
def test_an_edit_must_name_one_place(search: str, says: str) -> None:
    with pytest.raises(Problem, match=says):
        read_unit(edit(search, "x"), REGION, "c++", PARENT)


@pytest.mark.parametrize(
    "answer",
    [
        '[{"a": 1}]',
        'Here:\n```json\n[{"a": 1}]\n```\nDone.',
        'I think [maybe] this: [{"a": 1}] is best.',
        'in0[0] is: [{"a": 1}]',
    ],
)
def test_json_is_found_in_and_out_of_fences(answer: str) -> None:
    assert read_json(answer, list) == [{"a": 1}]


def test_deep_json_is_no_json() -> None:
    with pytest.raises(Problem):
        read_json("[" * 100_000, list)


FRAGMENTS = st.sampled_from(
    ["```", "~~~", "```cpp\n", "\n", GOOD, "// warpsmith-unit: 1\n", "// tunable: A = ", "{1}", "void unit(", ")",
     "<<<<<<< SEARCH\n", "=======\n", ">>>>>>> REPLACE\n", "[", "{", '{"region": ', "]", "}", '"', "\\", "#include",
     '"task.h"', "\ud800", "\x00", "é", "9" * 5000, "out0[i] = in0[i];"]
)  # fmt: skip
TEXTS = st.lists(st.one_of(FRAGMENTS, st.text(max_size=40)), max_size=40).map("".join)


@settings(max_examples=300, deadline=None)
@given(TEXTS)
def test_no_text_raises_anything_but_a_problem(text: str) -> None:
    for read in (
        lambda: read_unit(text, REGION, "c++"),
        lambda: read_unit(text, REGION, "c++", PARENT),
        lambda: read_json(text, list),
        lambda: read_json(text, dict),
    ):
        with suppress(Problem):
            read()
    find_fenced_blocks(text)
    edits(text)
    assert one_line(text, 50).isprintable()


@pytest.mark.parametrize(
    "piece",
    ["```\n", "[", "{", "```cpp\n// warpsmith-unit: 1\n", "void unit(", "<<<<<<< SEARCH\n", "\\", "`"],
)
def test_two_megabytes_are_read_in_bounded_time(piece: str) -> None:
    text = piece * (390_000 // len(piece))
    started = time.monotonic()
    for answer in (text, piece * (2_000_000 // len(piece))):
        for read in (lambda a: read_unit(a, REGION, "c++", PARENT), lambda a: read_json(a, list)):
            with pytest.raises(Problem):
                read(answer)
    assert time.monotonic() - started < 20  # a bound on the shape of the work, not a timing

"""Front matter: what render writes, parse reads back; what is malformed is named with its line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.records import Region, Tunable
from warpsmith.targets.front_matter import (
    FIRST_LINE,
    RESERVED,
    FrontMatter,
    FrontMatterError,
    body,
    parse,
    render,
    unit_from_source,
)
from warpsmith.targets.tensor_maps import TensorMap

REGION = Region(nodes=("n",), inputs=("x",), outputs=("y",), signature="s")
SOURCE = """\
// warpsmith-unit: 1
// family: softmax   technique: two-pass, stored
// A row is read twice; see tunables below: all of them matter.
// tunable: UNROLL = 2 {1, 2, 4}
// tunable: NT = 0 {0, 1}
// requires: in0_shape[1] % 4 == 0
// flags: -funroll-loops -O2
// atomics: yes
#include "task.h"
// tunable: LATE = 1 {1}
"""

names = st.from_regex(r"[A-Z][A-Z0-9_]{0,9}", fullmatch=True).filter(lambda n: n not in RESERVED)
word = st.from_regex(r"[a-z][a-z0-9-]{0,12}", fullmatch=True)
terms = st.one_of(
    st.from_regex(r"in[0-9]_shape\[[0-9]\]", fullmatch=True), st.integers(0, 999).map(str), names
)


@st.composite
def tunables(draw: st.DrawFn) -> tuple[Tunable, ...]:
    found = []
    for name in draw(st.lists(names, max_size=4, unique=True)):
        domain = draw(st.lists(st.integers(-(2**31), 2**31), min_size=1, max_size=6, unique=True))
        found.append(Tunable(name=name, domain=tuple(domain), value=draw(st.sampled_from(domain))))
    return tuple(found)


@st.composite
def tensor_maps(draw: st.DrawFn) -> tuple[TensorMap, ...]:
    extents = st.one_of(st.integers(1, 256).map(str), names)
    return tuple(
        TensorMap(
            name=name, buffer=draw(st.sampled_from(["in0", "in3", "out1"])), swizzle=draw(st.sampled_from([0, 32, 64, 128])),
            box=tuple(draw(st.lists(extents, min_size=1, max_size=5))),
        )
        for name in draw(st.lists(names, max_size=3, unique=True))
    )  # fmt: skip


@st.composite
def matters(draw: st.DrawFn) -> FrontMatter:
    requires = draw(st.lists(st.tuples(terms, st.sampled_from(["%", "<=", "=="]), terms), max_size=3))
    return FrontMatter(
        family=draw(word),
        technique=draw(st.lists(word, max_size=3).map(", ".join)),
        tunables=draw(tunables()),
        requires=tuple(" ".join(r) for r in requires),
        flags=tuple(draw(st.lists(word.map("-f{}".format), max_size=3))),
        atomics=draw(st.booleans()),
        tensor_maps=draw(tensor_maps()),
    )


@given(matters())
def test_round_trip(matter: FrontMatter) -> None:
    assert parse(render(matter)) == matter
    assert parse(render(matter) + '#include "task.h"\n') == matter


@given(st.text(max_size=200))
def test_any_text_parses_or_is_refused_in_one_line(text: str) -> None:
    try:
        message = f"line 0: {parse(f'{FIRST_LINE}{chr(10)}{text}').family}"
    except FrontMatterError as error:
        message = str(error)
    assert message.startswith("line ")
    assert len(message.splitlines()) == 1


def test_fields() -> None:
    matter = parse(SOURCE)
    assert (matter.family, matter.technique) == ("softmax", "two-pass, stored")
    assert [(t.name, t.value, t.domain) for t in matter.tunables] == [
        ("UNROLL", 2, (1, 2, 4)),
        ("NT", 0, (0, 1)),
    ]
    assert matter.requires == ("in0_shape[1] % 4 == 0",)
    assert matter.flags == ("-funroll-loops", "-O2")
    assert matter.atomics
    assert body(SOURCE).startswith('#include "task.h"')


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("// tunables: A = 1 {1}", "line 2: 'tunables:' is not a key; did you mean 'tunable:'?"),
        ("// tunable: A = 1", "line 2: a tunable reads"),
        ("// tunable: A = 3 {1, 2}", "its default 3 among them"),
        ("// tunable: A = 1 {1, 1}", "distinct"),
        ("// tunable: A = 1 {1, x}", "must be integers"),
        ("// tunable: lower = 1 {1}", "cannot name a tunable"),
        ("// tunable: THREADS = 1 {1}", "cannot name a tunable"),
        ("// tunable: A = 1 {1}\n// tunable: A = 1 {1}", "line 3: tunable A appears twice"),
        ('// requires: system("x") == 0', "shapes, tunables and numbers only"),
        ("// requires:", "needs a value"),
        ("// atomics: maybe", "yes or no"),
        ("// family: two words", "one word"),
    ],
)
def test_malformed(line: str, message: str) -> None:
    with pytest.raises(FrontMatterError) as caught:
        parse(f"{FIRST_LINE}\n{line}\n")
    assert message in str(caught.value)


def test_no_front_matter() -> None:
    with pytest.raises(FrontMatterError, match="starts with"):
        parse('#include "task.h"\n')


def test_a_long_requirement_is_refused_quickly() -> None:
    with pytest.raises(FrontMatterError):
        parse(f"{FIRST_LINE}\n// requires: {'A' * 5000}?\n")


def test_unit_takes_values() -> None:
    unit = unit_from_source(SOURCE, REGION, {"UNROLL": 4})
    assert unit.values == {"UNROLL": 4, "NT": 0}
    assert unit.code_key != unit_from_source(SOURCE, REGION).code_key
    with pytest.raises(FrontMatterError, match="UNROLL = 3 is not in"):
        unit_from_source(SOURCE, REGION, {"UNROLL": 3})
    with pytest.raises(FrontMatterError, match="WIDTH: not a tunable"):
        unit_from_source(SOURCE, REGION, {"WIDTH": 3})

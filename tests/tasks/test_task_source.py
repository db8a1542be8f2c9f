"""Constants of a task file, read and replaced without running it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.errors import TaskError
from warpsmith.tasks.source import constants, names_read_by, parse, replace_constants

FILE = """
rows = 128
height = width = 32
a, b = 3, 5
big = 1024 * 4
half = rows // 2
shape = (rows, width)
label: str = "x"

def helper():
    return big

def get_inputs():
    return [half, helper()]

def get_init_inputs():
    return [a]
"""


def run(tree: Any) -> dict[str, Any]:
    namespace: dict[str, Any] = {}
    exec(compile(tree, "task.py", "exec"), namespace)
    return namespace


def test_constants_are_literals_only() -> None:
    found = constants(parse(FILE, "task.py"))
    assert found == {"rows": 128, "height": 32, "width": 32, "a": 3, "b": 5, "big": 4096, "label": "x"}


@given(st.integers(-(10**12), 10**12), st.integers(1, 10**6))
def test_replaced_constants_reach_what_depends_on_them(rows: int, width: int) -> None:
    namespace = run(replace_constants(parse(FILE, "task.py"), {"rows": rows, "width": width}, "task.py"))
    assert namespace["half"] == rows // 2
    assert namespace["shape"] == (rows, width)
    assert namespace["height"] == 32  # the other name of the chained assignment keeps its value


@given(st.one_of(st.integers(), st.text(max_size=5), st.booleans(), st.tuples(st.integers(), st.integers())))
def test_any_literal_can_be_put_in(value: Any) -> None:
    assert run(replace_constants(parse(FILE, "task.py"), {"b": value}, "task.py"))["b"] == value


def test_lines_survive_replacement() -> None:
    tree = replace_constants(parse("n = 1\nraise ValueError(n)", "task.py"), {"n": 2}, "task.py")
    with pytest.raises(ValueError, match="2") as caught:
        run(tree)
    assert caught.traceback[-1].lineno + 1 == 2


def test_unknown_constant_is_named() -> None:
    with pytest.raises(TaskError, match=r"no module-level constant 'rosw'.*rows"):
        replace_constants(parse(FILE, "task.py"), {"rosw": 1}, "task.py")


def test_syntax_error_has_its_line() -> None:
    with pytest.raises(TaskError, match=r"^task\.py:2: syntax error"):
        parse("x = 1\ndef f(:\n", "task.py")


def test_nul_bytes_are_an_error_of_one_line() -> None:
    with pytest.raises(TaskError) as caught:
        parse("x = 1\0", "task.py")
    assert "\n" not in str(caught.value)


def test_names_are_followed_through_functions_and_assignments() -> None:
    tree = parse(FILE, "task.py")
    assert names_read_by(tree, ("get_inputs",)) >= {"half", "rows", "big"}
    assert "a" not in names_read_by(tree, ("get_inputs",))
    assert names_read_by(tree, ("get_init_inputs",)) == {"a"}

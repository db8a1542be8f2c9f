"""Sources in normal form: equal when only comments, blanks and local names differ, different when anything else does."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.search.normal_form import normalise

SOURCE = """\
// family: softmax   technique: two-pass
#include "task.h"
#include "warpsmith_simd.h"
#define TWICE(x) \\
    (2 * (x))
static inline float helper(const float value, int64_t count) { return value * count; }
static void unit(const in0_t* in0, out0_t* out0, void* workspace, void* stream) {
  float* partial = (float*)workspace;
  #pragma omp parallel for reduction(+ : total)
  for (int64_t row = 0; row < in0_shape[0]; ++row) {
    float total = 0.5f;  /* the sum */
    vecf wide = ws_load(in0 + row * UNROLL);
    total += helper(expf(in0[row]) * 1e-5f, TWICE(row));
    if (total > partial[row] && wide.size() < 8) out0[row] = total;
  }
}
"""
LOCALS = ("helper", "value", "count", "partial", "row", "total", "wide")


def renamed(source: str, names: dict[str, str]) -> str:
    return re.sub(r"[A-Za-z_]\w*", lambda m: names.get(m.group(), m.group()), source)


@given(
    st.permutations([f"name{i}" for i in range(len(LOCALS))]),
    st.sampled_from(["", "  ", "\n", " /* c */ ", "// d\n"]),
)
def test_local_names_comments_and_blanks_do_not_count(names: list[str], filler: str) -> None:
    other = (
        renamed(SOURCE, dict(zip(LOCALS, names, strict=True)))
        .replace("; ", f";{filler}")
        .replace("{\n", f"{{{filler}\n")
    )
    assert normalise(other) == normalise(SOURCE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("expf", "logf"), ("1e-5f", "1e-6f"), ("0.5f", "0.25f"), ("total > ", "total >= "), ("in0_shape[0]", "in0_shape[1]"),
        ("UNROLL", "BLOCK"), ("(2 * (x))", "(3 * (x))"), ("ws_load", "ws_loadu"), ("vecf", "vecd"), ("out0[row]", "out0[0]"),
        ("< in0", "<= in0"), ("#pragma omp parallel for reduction(+ : total)", ""), ("wide.size()", "wide.width()"),
        ("value * count", "value + count"), ("int64_t row", "int row"), ('"warpsmith_simd.h"', '"other.h"'), ("0.5f", ".5f"),
    ],
)  # fmt: skip
def test_everything_else_counts(old: str, new: str) -> None:
    assert old in SOURCE
    assert normalise(SOURCE.replace(old, new)) != normalise(SOURCE)


def test_swapping_two_locals_is_not_renaming() -> None:
    one = "float f(float a, float b) { return a - b; }"
    assert normalise(one) != normalise("float f(float a, float b) { return b - a; }")
    assert normalise(one) == normalise("float g(float b, float a) { return b - a; }")


def test_a_name_that_is_a_member_keeps_its_spelling() -> None:
    """Numbered, `v.x` and `v.y` would read the same."""
    assert normalise("float x = 1; f(v.x)") != normalise("float y = 1; f(v.y)")
    assert normalise("int size = 1; std::size") != normalise("int begin = 1; std::begin")


def test_what_the_header_declares_keeps_its_spelling() -> None:
    assert normalise("float z = in0[0];") != normalise("float z = in1[0];")
    assert normalise("void f(const in0_t* in0)") != normalise("void f(const in0_t* in1)")


def test_nothing_is_renamed_where_tokens_are_pasted() -> None:
    pasted = "#define N(a) a##b\nfloat {0}b = 1;"
    assert normalise(pasted.replace("{0}", "x")) != normalise(pasted.replace("{0}", "y"))


def test_a_text_is_no_comment_and_a_comment_is_no_text() -> None:
    assert normalise('f("// not one");') != normalise('f("// another");')
    assert normalise("f(); // it's\ng();") == normalise("f(); g();")
    assert normalise('f(R"(")"); // a') == normalise('f(R"(")");')
    assert normalise("// nothing\n/* at all */") == ""


def test_the_end_of_a_preprocessor_line_counts() -> None:
    assert normalise("#define A\nf();") != normalise("#define A f();")
    assert normalise("#define A \\\n f();") == normalise("#define A f();")

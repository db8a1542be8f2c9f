"""Failures of one kind have one signature; failures of different kinds do not."""

from __future__ import annotations

import itertools
import string
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from warpsmith.knowledge.signature import _KEPT_WORDS, LONGEST, signature
from warpsmith.targets.diagnostics import one_line, parse

# As g++ 13 and nvcc 13 print them; each line is another mistake.
DIFFERENT = (
    "build-failed: error: line 12: ‘foo’ was not declared in this scope",
    "build-failed: error: line 3: ‘vf’ does not name a type",
    "build-failed: error: line 9: expected ‘;’ before ‘}’ token",
    "build-failed: error: line 9: expected ‘)’ before ‘;’ token",
    "build-failed: error: line 9: expected primary-expression before ‘)’ token",
    "build-failed: error: line 20: invalid conversion from ‘const float*’ to ‘float*’ [-fpermissive]",
    "build-failed: error: line 20: invalid conversion from ‘int’ to ‘float*’ [-fpermissive]",
    "build-failed: error: line 7: no matching function for call to ‘load(const double*)’",
    "build-failed: error: line 7: too few arguments to function ‘void f(int, int)’",
    "build-failed: error: line 7: too many arguments to function ‘void f(int)’",
    "build-failed: error: line 31: assignment of read-only location ‘* in0’",
    "build-failed: error: line 31: lvalue required as left operand of assignment",
    "build-failed: error: line 5: redefinition of ‘float square(float)’",
    "build-failed: error: line 5: conflicting declaration ‘double x’",
    "build-failed: error: line 44: cannot convert ‘float’ to ‘ws::vf’ in assignment",
    "build-failed: error: line 44: invalid operands of types ‘float*’ and ‘float’ to binary ‘operator*’",
    "build-failed: error: line 2: ‘static void unit(const in0_t*, out0_t*, void*, void*)’ used but never defined",
    "build-failed: error: line 8: inlining failed in call to ‘always_inline’ ‘__m256 _mm256_fmadd_ps(__m256, __m256, __m256)’: "
    "target specific option mismatch",
    "build-failed: error: line 1: unit.h: No such file or directory",
    "build-failed: error: line 14: static assertion failed: VEC must be 4, 8 or 16",
    "build-failed: error: line 14: stray ‘#’ in program",
    "build-failed: error: line 14: the value of ‘n’ is not usable in a constant expression",
    "build-failed: error: line 14: ‘acc’ not specified in enclosing ‘parallel’",
    'build-failed: error: line 14: identifier "foo" is undefined',
    'build-failed: error: line 14: expected a ";"',
    'build-failed: error: line 14: no instance of overloaded function "load_pack" matches the argument list',
    "build-failed: error: uses too much shared data (0x12000 bytes, 0xc000 max)",
    "refused: symbol: forbidden import: malloc, which returns what an earlier call left in memory: take the workspace, or calloc",
    "refused: symbol: forbidden import: pthread_create",
    "refused: symbol: keeps state between calls: calls must be const, local or in the workspace",
    "refused: source: line 3: include: #include <vector> is not one of the headers a unit may include",
    "refused: source: line 3: asm: inline assembly hides what a unit calls",
    "incorrect: budget on normal inputs (main): 12 of 4096 elements, worst at [3, 1]: 0.5 instead of 0.25; off by a factor of 2",
    "incorrect: budget on normal inputs (main): 12 of 4096 elements, worst at [3, 1]: 0.5 instead of 0.25; all zeros",
    "incorrect: budget on large inputs (main): 3 NaN where the reference is finite",
    "incorrect: budget on offset inputs (main): agrees to about 9 bits: looks like TF32 or fp16 rounding",
    "incorrect: nan-poison on own inputs (main): 12 of 4096 elements were never written, first at [3, 1]",
    "incorrect: guard on own inputs (ragged): wrote outside a buffer: 4 bytes behind output 0",
    "incorrect: nondeterministic on own inputs (main): 3 of 4096 elements differ between two runs on the same inputs, first at [0]",
    "incorrect: budget on normal inputs: 1 of 64 elements, worst at [3, 1]: 0.5 instead of 0.25 (1.07 times the budget)",
    "incorrect: budget on normal inputs: 1 of 64 elements, worst at [3, 1]: 0.5 instead of 0.25 (3.1e+06 times the budget)",
    "incorrect: sanitizer-undefined: undefined at main: left shift of 1262485377 by 23 places cannot be represented in type 'int'",
    "timeout: no answer within 20 s",
    "crashed: signal 11 (segmentation fault)",
    "crashed: signal 8 (floating point exception)",
)  # fmt: skip


def test_different_errors_differ():
    same = [(a, b) for a, b in itertools.combinations(DIFFERENT, 2) if signature(a) == signature(b)]
    assert same == []


SAME = (
    ("error: line 12: ‘foo’ was not declared in this scope", "error: line 7: ‘row_max’ was not declared in this scope; did you mean ‘hmax’?"),
    ("error: line 12: no matching function for call to ‘load(double*)’", "error: line 1: no matching function for call to ‘store(int, float)’"),
    ("/tmp/a1/unit.cpp:3:14: error: expected ‘;’ before ‘float’", "/home/u/b-2/unit.cpp:90:1: error: expected ‘;’ before ‘double’"),
    ("refused: symbol: keeps state between calls: calls must be const", "refused: symbol: keeps state between calls: a, b, c must be const"),
    (
        "incorrect: budget on normal inputs (main): 12 of 4096 elements, worst at [3, 1]: 0.5 instead of -2.5e-05 (1.07 times the budget); tail",
        "incorrect: budget on normal inputs (small): 1 of 64 elements, worst at [3, 1, 2]: 7 instead of 6.25 (3.5 times the budget); tail",
    ),
    ("crashed: signal 11 at 0x7f3a5566", "crashed: signal 11 at 0x55d0"),
    ("undefined: foo(float const*)", "undefined: bar"),
    ("error: line 3: ‘__m256’ {aka ‘__vector(8) float’} has no member named ‘x’", "error: line 4: ‘vf’ has no member named ‘y’"),
    ('error: identifier "tid" is undefined', 'error: identifier "lane" is undefined'),
)  # fmt: skip


@pytest.mark.parametrize(("one", "other"), SAME)
def test_two_instances_of_one_error_agree(one, other):
    assert signature(one) == signature(other) != ""


def test_what_tells_errors_apart_is_readable():
    assert signature(DIFFERENT[0]) == "build-failed: error: '_' was not declared in this scope"
    assert signature(DIFFERENT[5]) == (
        "build-failed: error: invalid conversion from 'const float*' to 'float*' [-fpermissive]"
    )
    assert signature("") == signature("\n \n") == ""


NAMES = st.text(string.ascii_letters + "_", min_size=1, max_size=12).filter(lambda n: n.strip("_"))


@given(name=NAMES, line=st.integers(1, 9999), folder=st.lists(NAMES, min_size=1, max_size=4))
def test_names_lines_and_folders_do_not_count(name, line, folder):
    path = "/".join(["", *folder, "unit.cpp"])
    text = f"{path}:{line}:7: error: ‘{name}’ was not declared in this scope"
    assert signature(text) == "error: '_' was not declared in this scope" or name in _KEPT_WORDS.split()


@given(
    wrong=st.integers(1, 10**9), at=st.lists(st.integers(0, 10**6), min_size=1, max_size=5),
    value=st.floats(allow_nan=False, allow_infinity=False),
)  # fmt: skip
def test_numbers_do_not_count(wrong, at, value):
    text = (
        f"budget on normal inputs (main): {wrong} of 4096 elements, worst at {at}: {value:.9g} instead of 0.5"
    )
    assert signature(text) == "budget on normal inputs: # of # elements, worst at [#]: # instead of #"


@settings(max_examples=400)
@given(st.text(max_size=400) | st.text("'‘’\"`#<>/.:()[]_-+ 0123456789abcxefE,;path\n", max_size=120))
@example("did you mean you mean line 1: line 2: '0' '' ''")
@example("a/b" * 200)
def test_it_is_one_short_line_and_applying_it_again_changes_nothing(text):
    sign = signature(text)
    assert len(sign) <= LONGEST
    assert len(sign.splitlines()) <= 1
    assert signature(sign) == sign


MISTAKES = {
    "undeclared": ("float f() { return %s; }", ("alpha", "beta_2")),
    "semicolon": ("int %s() { return 1 }", ("one", "two")),
    "conversion": ("void f(const float* %s) { float* q = %s; (void)q; }", ("first", "second")),
    "arguments": ("void %s(int); void g() { %s(); }", ("h", "longer_name")),
    "include": ('#include "%s.h"', ("nowhere", "elsewhere")),
}


def test_real_compiler_messages_agree_within_a_mistake_and_differ_between_mistakes(tmp_path: Path):
    seen: dict[str, str] = {}
    for mistake, (source, names) in MISTAKES.items():
        signs = set()
        for number, name in enumerate(names):
            file = tmp_path / f"d{number}" / "unit.cpp"
            file.parent.mkdir(exist_ok=True)
            file.write_text("\n" * number + source.replace("%s", name))
            done = subprocess.run(
                ["g++", "-fsyntax-only", str(file)], capture_output=True, text=True, check=False
            )
            assert done.returncode != 0
            signs.add(signature(done.stderr))
            assert (
                signature(f"build-failed: {one_line(parse(done.stderr))}")
                == f"build-failed: {signature(done.stderr)}"
            )
        assert len(signs) == 1, signs
        seen[mistake] = signs.pop()
    assert len(set(seen.values())) == len(MISTAKES)

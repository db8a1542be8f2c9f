"""The scan of a source: nothing forbidden slips through a trick of spelling, nothing honest is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.targets.source_rules import HEADERS, find_refusals


@pytest.mark.parametrize(
    ("source", "rule", "line"),
    [
        ('#include "/etc/passwd"\n', "include", 1),
        ('#include "../secret.h"\n', "include", 1),
        ("#include <iostream>\n", "include", 1),
        ("#include <dlfcn.h>\n", "include", 1),
        ("\n#  include <unistd.h> // why\n", "include", 2),
        ("#/* */include <unistd.h>\n", "include", 1),
        ("/* a\nb */ #include <unistd.h>\n", "include", 2),
        ("#inc\\\nlude <unistd.h>\n", "include", 1),
        ("int x;\r\n#include <unistd.h>\r\n", "include", 2),
        ("%:include <unistd.h>\n", "include", 1),
        ("#define H <unistd.h>\n#include H\n", "include", 2),
        ('#include_next "task.h"\n', "include", 1),
        ('#import "task.h"\n', "include", 1),
        ('char c[] = {\n#embed "x"\n};\n', "embed", 2),
        ('void f() { asm("syscall"); }\n', "asm", 1),
        ('void f()\n{ __asm__ volatile (".incbin \\"/etc/passwd\\""); }\n', "asm", 2),
        ('extern "C" int f(void) __asm("system");\n', "asm", 1),
        ("#define A as\\\nm\nA;\nasm(1);\n", "asm", 1),
        ("__attribute__((constructor)) void f() {}\n", "construct", 1),
        (
            '__attribute__((section("a\\n.incbin \\"/etc/passwd\\"\\n.section b"))) int f() { return 1; }\n',
            "construct",
            1,
        ),
        (
            '#define A __section__\n__attribute__((A(".text;.byte 15,5"))) int f() { return 1; }\n',
            "construct",
            1,
        ),
        ('[[gnu::alias("f")]] int g();\n', "construct", 1),
        ('# 7 "other.cpp"\n', "line", 1),
        ("#line 7\n", "line", 1),
        ('const char* s = R"x(\n)x";\n#include <unistd.h>\n', "include", 3),
        ("int a = 1'0, b; // '\n#include <unistd.h>\nint c = 1'0;\n", "include", 2),
        ('const char* s = "/*";\n#include <unistd.h>\n//*/\n', "include", 2),
        ("#define X 1e+'a'/*'\n#include <unistd.h>\n//*/\n", "include", 2),
        ("int x;\n\f#include <unistd.h>\n", "character", 2),
        ("\ufeff#include <unistd.h>\n", "character", 1),
        ("int x;\n\x00#include <unistd.h>\n", "character", 2),
        ("#inc\\\x00\nlude <unistd.h>\n", "character", 1),
        ("int x;\r#include <unistd.h>\n", "character", 1),
        ("[[gnu::constructor]] void f() {}\n", "construct", 1),
        ("\n#define P(a, b) a##b\nP(a, sm)(1);\n", "pasting", 2),
        ('__attribute__((__ifunc__("f"))) void g();\n', "construct", 1),
        ("void* p = __builtin_return_address(0);\n", "construct", 1),
    ],
)
def test_refused(source: str, rule: str, line: int) -> None:
    found = find_refusals(source)
    assert found, source
    assert (found[0].message.split(":")[0], found[0].line) == (rule, line)
    assert found[0].kind == "source"


@pytest.mark.parametrize(
    "source",
    [
        '#include "task.h"\n#include <math.h>\n#include <immintrin.h>  // vectors\n',
        "// #include <unistd.h> and asm, too\n/* asm */\n",
        'const char* s = "#include <unistd.h> asm";\n',
        'const char* s = R"(\n#include <unistd.h>\n)";\n',
        "#pragma omp parallel for num_threads(THREADS)\n#define N 3\n#if N\n#endif\n",
        "int plasma = 1, asmr = 2;\n",
    ],
)
def test_allowed(source: str) -> None:
    assert find_refusals(source) == ()


@given(st.text(max_size=300))
def test_any_text_is_scanned(source: str) -> None:
    assert all(d.kind == "source" for d in find_refusals(source))


@given(st.text(alphabet="ab1\"'/*\\\n #()", max_size=60))
def test_an_include_on_its_own_line_after_closed_text_is_found(noise: str) -> None:
    found = find_refusals(f"{noise}\n\n*/\n#include <unistd.h>\n")
    assert any("unistd" in d.message for d in found)


def test_headers_hold_no_paths() -> None:
    assert not [h for h in HEADERS if "/" in h]


def test_size() -> None:
    assert "at most" in find_refusals("x" * (2 << 20))[0].message


def test_sections_of_openmp_stay() -> None:
    assert find_refusals("void f() {\n#pragma omp parallel sections\n{\n#pragma omp section\n;\n}\n}\n") == ()

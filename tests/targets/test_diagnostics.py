"""Output of real compilers (and a few stored lines of others) → records that point into the unit."""

from __future__ import annotations

from collections.abc import Callable

from warpsmith.records import Build, Diagnostic, Graph, Unit
from warpsmith.targets.cpu import CpuTarget
from warpsmith.targets.diagnostics import is_refused, one_line, parse, unmet_requirements

CLANG = """\
unit.cpp:7:13: error: use of undeclared identifier 'foo'
    7 |   out0[0] = foo;
      |             ^
unit.cpp:4:7: warning: unused variable 'a' [-Wunused-variable]
1 warning and 1 error generated.
"""
IN_HEADER = """\
In file included from unit.cpp:12:
/x/warpsmith_simd.h: In instantiation of 'void ws::f(T) [with T = int]':
unit.cpp:31:8:   required from here
/x/warpsmith_simd.h:40:3: error: no match for 'operator+'
"""
LINKER = """\
/usr/bin/ld: unit.o: in function `warpsmith_run':
unit.cpp:(.text+0x3): undefined reference to `unit(float const*, float*, void*, void*)'
collect2: error: ld returned 1 exit status
"""


def test_clang_errors_come_first() -> None:
    found = parse(CLANG)
    assert [(d.kind, d.line) for d in found] == [("error", 7), ("warning", 4)]
    assert found[0].message == "use of undeclared identifier 'foo'"


def test_an_error_in_a_header_takes_the_line_that_led_there() -> None:
    assert [(d.kind, d.line) for d in parse(IN_HEADER)] == [("error", 31)]


def test_linker() -> None:
    found = parse(LINKER)
    assert (found[0].kind, found[0].line) == ("link", 0)
    assert found[0].message == "undefined: unit(float const*, float*, void*, void*)"


def test_compiler_driver() -> None:
    found = parse(
        "g++: error: unrecognized command-line option '-fnope'\ncc1plus: fatal error: x.h: No such file\n"
    )
    assert [d.kind for d in found] == ["error", "error"]


def test_real_syntax_error(target: CpuTarget, graph: Graph, make_unit: Callable[..., Unit]) -> None:
    build = target.build(make_unit("int a = 1;\nout0[0] = in0[0] +;\n"), graph, "main")
    assert not build.ok
    assert not is_refused(build)
    first = build.diagnostics[0]
    assert (first.kind, first.line) == ("error", 4)
    assert one_line(build.diagnostics).startswith("error: line 4: expected")


def test_real_error_inside_a_template(
    target: CpuTarget, graph: Graph, make_unit: Callable[..., Unit]
) -> None:
    head = "template <class T> static T twice(T t) { return t.nothing(); }\n"
    build = target.build(make_unit("out0[0] = twice(in0[0]);", head), graph, "main")
    assert build.diagnostics[0].line == 1
    assert "nothing" in build.diagnostics[0].message


def test_real_missing_unit(target: CpuTarget, graph: Graph, make_unit: Callable[..., Unit]) -> None:
    source = make_unit().source.replace("void unit(", "void other(")
    build = target.build(make_unit().model_copy(update={"source": source}), graph, "main")
    assert not build.ok
    assert any("unit" in d.message for d in build.diagnostics)


def test_real_requirement(target: CpuTarget, graph: Graph, make_unit: Callable[..., Unit]) -> None:
    good = make_unit("out0[0] = 0;", requires=("in0_shape[1] % 4 == 0",))
    bad = make_unit("out0[0] = 0;", requires=("in0_shape[1] % 16 == 0", "in0_shape[0] == 8"))
    assert target.build(good, graph, "main").ok
    build = target.build(bad, graph, "main")
    assert unmet_requirements(build) == ("in0_shape[1] % 16 == 0",)
    assert not is_refused(build)


def test_nothing_said() -> None:
    assert "said nothing" in one_line(())
    failed = Build(
        unit_key="k", variant="main", ok=False, diagnostics=(Diagnostic(line=0, kind="symbol", message="m"),)
    )
    assert is_refused(failed)


NVCC = """\
unit.cu(2): warning #177-D: variable "unused" was declared but never referenced
  __attribute__((global)) void two(float* b) { int unused; }
                                                   ^

Remark: The warnings can be suppressed with "-diag-suppress <warning-number>"

unit.cu(5): error: identifier "foo" is undefined
  static void unit(const float* in0, float* out0, void* workspace, void* stream) { foo(); }
                                                                                   ^

/x/warpsmith_cuda.h(83): error: no instance of overloaded function "__shfl_xor_sync" matches the argument list
            argument types are: (const unsigned int, const char *, int)
          detected during:
            instantiation of "T ws::warp_reduce<Op,T>(T) [with Op=ws::Sum, T=const char *]" at line 92
            instantiation of "T ws::block_sum(T) [with T=const char *]" at line 3 of unit.cu

/x/task.h(40): error: static assertion failed with "requires: in0_shape[1] % 3 == 0"
  static_assert(in0_shape[1] % 3 == 0, "requires: in0_shape[1] % 3 == 0");
  ^

4 errors detected in the compilation of "unit.cu".
"""
PTXAS = """\
ptxas info    : Compiling entry function '_Z3twoPf' for 'sm_90a'
ptxas /tmp/tmpxft_0000157d_00000000-6_e.ptx, line 41; error   : Not a name of any known instruction: 'foo'
ptxas error   : Entry function '_Z3twoPf' uses too much shared data (0x61a80 bytes, 0x38c00 max)
ptxas fatal   : Ptx assembly aborted due to errors
ptxas warning : Stack size for entry function '_Z1kv' cannot be statically determined
ptxas info    : (C7514) Potential Performance Loss: wgmma.mma_async instructions are serialized due to \
non wgmma instructions reading accumulator registers
nvcc fatal   : Unsupported gpu architecture 'compute_99'
"""


def test_nvcc() -> None:
    found = parse(NVCC, "unit.cu")
    assert [(d.kind, d.line) for d in found] == [("error", 5), ("error", 3), ("requires", 0), ("warning", 2)]
    assert found[0].message == 'identifier "foo" is undefined'
    assert found[2].message == "in0_shape[1] % 3 == 0"


def test_assembler_of_cuda() -> None:
    found = parse(PTXAS, "unit.cu")
    assert [d.kind for d in found] == ["error"] * 4 + ["warning"] * 2
    assert "uses too much shared data" in found[1].message
    assert found[3].message == "Unsupported gpu architecture 'compute_99'"
    assert "instructions are serialized due to non wgmma" in found[5].message

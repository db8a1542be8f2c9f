"""Units built by the real compiler: what comes out, what is refused, and why."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from warpsmith import machine
from warpsmith.errors import JudgeError, ToolchainError
from warpsmith.records import Graph, Tunable, Unit
from warpsmith.targets.cpu import EXTRA_FLAGS, CpuTarget
from warpsmith.targets.diagnostics import is_refused
from warpsmith.targets.target import Target

RELU = """
#pragma omp parallel for num_threads(THREADS)
for (int i = 0; i < in0_numel; i++) out0[i] = in0[i] > 0 ? in0[i] : 0;
"""


def test_a_good_unit_computes(target: CpuTarget, graph: Graph, make_unit: Callable[..., Unit]) -> None:
    build = target.build(make_unit(RELU, "#define WORKSPACE_BYTES 128\n"), graph, "main")
    assert build.ok, build.diagnostics
    ctypes.CDLL("libgomp.so.1", mode=ctypes.RTLD_GLOBAL)  # the unit brings no OpenMP of its own
    library = ctypes.CDLL(build.library)
    x, y = np.linspace(-1, 1, 800, dtype=np.float32), np.empty(800, np.float32)
    pointers = [(ctypes.c_void_p * 1)(a.ctypes.data) for a in (x, y)]
    library.warpsmith_run(*pointers, None, None)
    assert np.array_equal(y, np.maximum(x, 0))
    assert library.warpsmith_workspace_bytes() == 128


def test_shapes_and_values_decide_the_binary(
    target: CpuTarget, graph: Graph, make_unit: Callable[..., Unit]
) -> None:
    tunable = Tunable(name="K", domain=(1, 2), value=1)
    one = make_unit("out0[0] = K;", tunables=(tunable,))
    two = one.model_copy(update={"tunables": (tunable.model_copy(update={"value": 2}),)})
    builds = [target.build(u, graph, "main") for u in (one, two)]
    assert "-DK=2" in builds[1].flags
    assert builds[0].library != builds[1].library
    wider = CpuTarget(target.cache.directory, threads=3)
    assert wider.build(one, graph, "main").library != builds[0].library


def test_the_same_binary_under_another_name(
    target: CpuTarget, graph: Graph, make_unit: Callable[..., Unit]
) -> None:
    unit = make_unit("out0[0] = 1;")
    renamed = unit.model_copy(update={"technique": "other"})
    assert target.build(unit, graph, "main").variant == "main"
    again = target.build(renamed, graph, "ragged")
    assert (again.cached, again.variant, again.unit_key) == (True, "ragged", renamed.code_key)


@pytest.mark.parametrize(
    ("body", "head", "message"),
    [
        ('system("ls");', "#include <stdlib.h>\n", "forbidden import: system"),
        (
            'out0[0] = open("x", 0);',
            'extern "C" int open(const char*, int, ...);\n',
            "forbidden import: open",
        ),
        (
            'out0[0] = dlsym(0, "x") != 0;',
            'extern "C" void* dlsym(void*, const char*);\n',
            "forbidden import: dlsym",
        ),
        (
            "pthread_create(0, 0, 0, 0);",
            'extern "C" int pthread_create(void*, void*, void*, void*);\n',
            "pthread_create",
        ),
        ("omp_set_num_threads(1);", "#include <omp.h>\n", "forbidden import: omp_set_num_threads"),
        ("exit(0);", "#include <stdlib.h>\n", "forbidden import: exit"),
        (
            "",
            'extern "C" __attribute__((visibility("default"))) int fork() { return 0; }\n',
            "forbidden export: fork",
        ),
        ("thread_local static int n; out0[0] = n++;", "", "thread-local"),
        (  # a lock is the compiler's own variable; what lies beside one is not
            "static int calls;\n#pragma omp critical(mine)\nout0[0] = calls++;",
            "",
            "keeps state between calls: calls",
        ),
        (
            "out0[0] = a.n;",
            "int f(const void*);\nstatic struct A { int n; A() { n = f(this); } } a;\n",
            "runs or redirects",
        ),
    ],
)
def test_refused_for_its_symbols(
    target: CpuTarget, graph: Graph, make_unit: Callable[..., Unit], body: str, head: str, message: str
) -> None:
    build = target.build(make_unit(body, head), graph, "main")
    assert is_refused(build), build.diagnostics
    assert not build.library
    assert message in " ".join(d.message for d in build.diagnostics)


def test_refused_for_its_source_or_flags(
    target: CpuTarget, graph: Graph, make_unit: Callable[..., Unit]
) -> None:
    for unit, kind in (
        (make_unit("", "#include <unistd.h>\n"), "source"),
        (make_unit('__asm__("nop");'), "source"),
        (make_unit("", requires=('1, ""); int system(const char*); static_assert(1',)), "source"),
        (make_unit("", requires=("1 == 1\n#include </etc/passwd>",)), "source"),
        (make_unit("", flags=("-Ofast",)), "flag"),
        (make_unit("", flags=("-fplugin=x.so",)), "flag"),
    ):
        build = target.build(unit, graph, "main")
        assert is_refused(build)
        assert build.diagnostics[0].kind == kind
    assert not target.cache.directory.exists()  # no compiler saw any of it


def test_machine_code_of_a_system_call_is_refused(
    target: CpuTarget, graph: Graph, make_unit: Callable[..., Unit], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second line of defence: what the scan of sources should have refused."""
    monkeypatch.setattr(target, "_refuse_source", lambda source: ())
    if machine.simd_level() not in ("sse2", "avx2", "avx512"):
        pytest.skip("the bytes are those of x86")
    head = '__attribute__((section(".text"), used)) static const unsigned char code[] = {0x0f, 0x05, 0xc3};\n'
    for section in (".text", ".mine"):
        build = target.build(
            make_unit("((void (*)())code)();", head.replace(".text", section)), graph, "main"
        )
        assert (build.ok, section) == (section == ".mine", section), (
            build.diagnostics
        )  # elsewhere it cannot be run


def test_every_extra_flag_is_known_to_the_compiler(
    target: CpuTarget, graph: Graph, make_unit: Callable[..., Unit]
) -> None:
    unit = make_unit("out0[0] = 1;", flags=tuple(sorted(EXTRA_FLAGS)))
    build = target.build(unit, graph, "main")
    assert build.ok, build.diagnostics


def test_math_and_half_types_link(target: CpuTarget, graph: Graph, make_unit: Callable[..., Unit]) -> None:
    body = """
out0[0] = expf(in0[0]) + tanhf(in0[1]) + (float)pow(in0[2], 2.5) + lgammaf(in0[3]);
ws_bf16 h = {1};
out0[1] = h.bits;
"""
    build = target.build(make_unit(body, "#include <math.h>\n"), graph, "main")
    assert build.ok, build.diagnostics


def test_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(ToolchainError, match="install g\\+\\+"):
        CpuTarget(tmp_path)


def test_a_full_disk_and_a_lost_compiler_are_errors_of_ours(
    tmp_path: Path, graph: Graph, make_unit: Callable[..., Unit]
) -> None:
    fake = tmp_path / "g++"
    version = '#!/bin/sh\n[ "$1" = --version ] && echo "g++ 0" && exit 0\n'
    fake.write_text(version + 'echo "unit.o: No space left on device"\nexit 1\n')
    fake.chmod(0o755)
    target = CpuTarget(tmp_path / "cache", str(fake))
    with pytest.raises(JudgeError, match="is full"):
        target.build(make_unit(), graph, "main")
    fake.unlink()
    with pytest.raises(ToolchainError, match="does not run"):
        target.build(make_unit(), graph, "main")
    assert list(target.cache.directory.iterdir()) == []


def test_doctor(target: CpuTarget) -> None:
    kept: Target = target
    findings = kept.doctor()
    assert all(ok for _, ok, _ in findings)
    assert machine.find_compiler() in findings[0][2]
    assert findings[0][2].endswith(machine.compiler_origin())


def test_doctor_of_a_compiler_that_fails(tmp_path: Path) -> None:
    fake = tmp_path / "g++"
    fake.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo "g++ 0" && exit 0\necho "no headers" >&2\nexit 1\n'
    )
    fake.chmod(0o755)
    findings = CpuTarget(tmp_path / "cache", str(fake)).doctor()
    assert ("compiles C++17 with OpenMP", False, "no headers") in findings

"""Facts about this machine, checked against what the system says elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from warpsmith import machine
from warpsmith.errors import ToolchainError


def test_describe_is_the_same_every_time() -> None:
    assert machine.describe().id == machine.describe().id


def test_threads_follow_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3,2")
    assert machine.threads() == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "nonsense")
    assert machine.threads() == machine.physical_cores()
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert machine.threads() == machine.physical_cores() <= len(machine.affinity())


def test_caches_grow_with_their_level() -> None:
    caches = machine.cache_bytes()
    sizes = [caches[level] for level in sorted(caches)]
    assert sizes == sorted(sizes)
    assert sizes[0] >= 4096


def test_cache_bytes_cannot_be_changed_by_a_caller() -> None:
    machine.cache_bytes()["L1"] = 1
    assert machine.cache_bytes()["L1"] != 1


def test_vector_width_is_what_the_compiler_uses() -> None:
    command = [machine.find_compiler(), "-march=native", "-dM", "-E", "-x", "c++", "/dev/null"]
    macros = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    expected = 16 if "__AVX512F__" in macros else 8 if "__AVX2__" in macros else 4
    assert machine.simd_width_floats() == expected
    many = "__AVX512VL__" in macros or "__aarch64__" in macros
    assert machine.simd_registers() == (32 if many else 16)


def test_a_missing_compiler_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ToolchainError, match="no C\\+\\+ compiler: no-such-g\\+\\+"):
        machine.find_compiler("no-such-g++")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(ToolchainError, match="no C\\+\\+ compiler: install g\\+\\+") as caught:
        machine.find_compiler()
    assert "\n" not in str(caught.value)
    assert machine.describe().compiler == "none"


@pytest.mark.parametrize(
    ("setting", "variable", "cxx", "origin"),
    [
        (None, None, None, "the first on PATH"),
        (None, None, "c++", "from CXX"),
        ("g++", "g++", None, "from WARPSMITH_COMPILER"),
        ("g++", "g++", "c++", "from WARPSMITH_COMPILER; CXX=c++ is not used"),
        ("g++", None, "c++", "from the setting compiler; CXX=c++ is not used"),
        ("g++", "clang++", "g++", "from the setting compiler"),
    ],
)
def test_a_compiler_comes_with_who_chose_it(
    monkeypatch: pytest.MonkeyPatch, setting: str | None, variable: str | None, cxx: str | None, origin: str
) -> None:
    for name, value in (("WARPSMITH_COMPILER", variable), ("CXX", cxx)):
        monkeypatch.delenv(name, raising=False)
        if value:
            monkeypatch.setenv(name, value)
    assert machine.compiler_origin(setting) == origin


def test_a_compiler_that_is_missing_is_named_with_who_chose_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "ccache g++")
    with pytest.raises(
        ToolchainError, match=r"ccache g\+\+ \(from CXX\).*set WARPSMITH_COMPILER.*without arg"
    ):
        machine.find_compiler()


def test_a_compiler_that_does_not_run_is_named(tmp_path: Path) -> None:
    fake = tmp_path / "g++"
    fake.write_text("#!/bin/sh\necho broken >&2\nexit 3\n")
    fake.chmod(0o755)
    with pytest.raises(ToolchainError, match="broken"):
        machine.compiler_signature(str(fake))


def test_torch_is_not_imported() -> None:
    names = "warpsmith.machine, warpsmith.targets.cpu, warpsmith.judge.isolation.runner"
    code = f"import sys, {names}; print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("gpu", "named"),
    [
        (machine.Gpu("NVIDIA H100 80GB HBM3", "GPU-1", "580.1", 81559, "9.0"), "NVIDIA H100 80GB HBM3"),
        (None, machine.UNNAMED_GPU),
    ],
)
def test_results_of_a_gpu_are_not_said_to_be_a_processors(
    monkeypatch: pytest.MonkeyPatch, gpu: machine.Gpu | None, named: str
) -> None:
    monkeypatch.setattr(machine, "gpu", lambda: gpu)
    assert machine.describe(device="cuda").hardware == named
    assert machine.describe().hardware == machine.cpu_name()


@pytest.mark.parametrize(("others", "threads", "quiet"), [(0.05, 2, True), (1.0, 2, False), (1.0, 1, True)])
def test_a_machine_is_quiet_when_its_processors_have_room(
    monkeypatch: pytest.MonkeyPatch, others: float, threads: int, quiet: bool
) -> None:
    """Two processors, of which others use so much; a look takes two seconds."""
    now = [0.0]

    def look(seconds: float, percpu: bool) -> list[float]:
        now[0] += seconds
        return [100.0 * others, 0.0]

    monkeypatch.setattr(machine.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(machine.psutil, "cpu_percent", look)
    monkeypatch.setattr(machine, "affinity", lambda: (0, 1))
    assert machine.wait_until_quiet(7.0, threads) is quiet
    assert now[0] == (2.0 if quiet else 7.0)


def test_a_gpu_is_quiet_when_it_has_no_other_work(monkeypatch: pytest.MonkeyPatch) -> None:
    used = iter(["90", "80", "0"])
    monkeypatch.setattr(machine.psutil, "cpu_percent", lambda seconds, percpu: [100.0])
    monkeypatch.setattr(machine, "query_gpu", lambda fields: [next(used)])
    assert machine.wait_until_quiet(600.0, 1, "cuda")
    assert list(used) == []

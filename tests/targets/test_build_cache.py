"""The cache: whole or absent, shared by processes, failures kept, nothing left behind."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.errors import JudgeError
from warpsmith.processes.sandbox import LANDLOCK_CREATE
from warpsmith.records import Build, Graph, Unit
from warpsmith.targets.build_cache import BuildCache, run_confined
from warpsmith.targets.cpu import CpuTarget


def made(folder: Path, text: str = "x") -> tuple[Build, bool]:
    (folder / "lib.so").write_text(text)
    return Build(unit_key="k", variant="main", ok=True, library="lib.so"), True


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@given(st.lists(st.text(max_size=5), max_size=4), st.lists(st.text(max_size=5), max_size=4))
def test_keys_differ_when_parts_differ(one: list[str], two: list[str]) -> None:
    assert (BuildCache.key(one) == BuildCache.key(two)) == (one == two)


def test_found_again(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path / "a" / "b")
    assert cache.find("key") is None
    first = cache.make("key", {"unit.cpp": "text"}, made)
    again = cache.find("key")
    assert again is not None
    assert (first.cached, again.cached) == (False, True)
    assert Path(again.library) == tmp_path / "a" / "b" / "key" / "lib.so"
    assert (tmp_path / "a" / "b" / "key" / "unit.cpp").read_text() == "text"
    assert sorted(p.name for p in cache.directory.iterdir()) == ["key"]


def test_the_first_of_two_makers_wins(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path)

    def overtaken(folder: Path) -> tuple[Build, bool]:
        cache.make("key", {}, lambda f: made(f, "first"))
        return made(folder, "second")

    build = cache.make("key", {}, overtaken)
    assert Path(build.library).read_text() == "first"


@pytest.mark.parametrize("damage", ["build.json", "lib.so"])
def test_a_damaged_entry_is_made_anew(tmp_path: Path, damage: str) -> None:
    cache = BuildCache(tmp_path)
    cache.make("key", {}, made)
    (tmp_path / "key" / damage).unlink()
    assert cache.find("key") is None
    assert Path(cache.make("key", {}, lambda f: made(f, "new")).library).read_text() == "new"


def test_what_a_killed_process_left_is_swept(tmp_path: Path) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    old, live = tmp_path / f".new-{dead.pid}-abc", tmp_path / f".new-{os.getpid()}-abc"
    old.mkdir()
    live.mkdir()
    BuildCache(tmp_path).make("key", {}, made)
    assert not old.exists()
    assert live.exists()


def test_no_room_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JudgeError, match=r"cannot write the build cache.*set WARPSMITH_CACHE") as caught:
        BuildCache(tmp_path / "file" / "cache").make("key", {}, made)
    assert "\n" not in str(caught.value)


def test_failures_are_kept(target: CpuTarget, graph: Graph, make_unit: Callable[..., Unit]) -> None:
    unit = make_unit("nonsense;")
    first, second = target.build(unit, graph, "main"), target.build(unit, graph, "main")
    assert (first.ok, first.cached, second.ok, second.cached) == (False, False, False, True)
    assert first.diagnostics == second.diagnostics != ()


def test_many_threads_build_the_same_unit(
    target: CpuTarget, graph: Graph, make_unit: Callable[..., Unit]
) -> None:
    unit, builds = make_unit("out0[0] = in0[0];"), []
    threads = [
        threading.Thread(target=lambda: builds.append(target.build(unit, graph, "main"))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(builds) == 4
    assert len({b.library for b in builds}) == 1
    assert all(b.ok for b in builds)
    assert len(list(target.cache.directory.iterdir())) == 1


def test_a_slow_command_is_killed_with_its_children(tmp_path: Path) -> None:
    started = time.monotonic()
    ran = run_confined([["/bin/sh", "-c", "sleep 77 & echo $! > pid; wait"]], tmp_path, timeout=0.5)
    assert ran.timed_out
    assert ran.transient
    assert time.monotonic() - started < 5
    child = int((tmp_path / "pid").read_text())
    while time.monotonic() - started < 10 and alive(child):
        time.sleep(0.02)
    assert not alive(child)


def test_a_command_writes_its_own_folder_only(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    ran = run_confined([["/bin/sh", "-c", f"echo ok > inside; echo no > {tmp_path}/outside"]], folder)
    assert (folder / "inside").read_text() == "ok\n"
    assert not (tmp_path / "outside").exists()
    assert ran.code != 0
    assert "outside" in ran.output


def test_a_command_has_no_network(tmp_path: Path) -> None:
    ran = run_confined([[sys.executable, "-c", "import socket; socket.socket()"]], tmp_path)
    assert "Operation not permitted" in ran.output


def test_an_endless_template_stops(target: CpuTarget, graph: Graph, make_unit: Callable[..., Unit]) -> None:
    head = "template <int N> struct A { static constexpr int v = A<N + 1>::v + 1; };\n"
    build = target.build(make_unit("out0[0] = A<0>::v;", head), graph, "main")
    assert not build.ok
    assert "depth" in " ".join(d.message for d in build.diagnostics)


def test_a_command_reads_no_file_of_the_user(tmp_path: Path) -> None:
    secret, folder = tmp_path / "secret", tmp_path / "build"
    secret.write_text("of the user")
    folder.mkdir()
    (folder / "mine").write_text("of the build")
    assert run_confined([["cat", "mine"]], folder).output == "of the build"
    if ctypes.CDLL(None).syscall(LANDLOCK_CREATE, None, 0, 1) < 1:
        pytest.skip("this kernel has no Landlock")
    refused = run_confined([["cat", str(secret)]], folder)
    assert refused.code != 0
    assert "Permission denied" in refused.output

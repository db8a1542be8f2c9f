"""A kit holds what another machine needs, and its script judges there, goes on after a stop, and packs the results."""

from __future__ import annotations

import os
import subprocess
import tarfile
from pathlib import Path

import pytest
from bundle_sample import made
from typer.testing import CliRunner

from warpsmith.bundles import kit
from warpsmith.bundles.wheels import list_requirements
from warpsmith.cli import app
from warpsmith.errors import UsageError

PYTHON = """#!/usr/bin/env bash
[ "$2 $3 $4" = "warpsmith bundle run" ] || exit 0  # installing
echo "judged: ${*:5}"
mkdir -p "$7/bundle" "$7/cache"
cp "$5/signature.json" "$7/bundle/"
exit 1
"""


@pytest.fixture
def small_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kit, "find_source_files", lambda: {"src/warpsmith/kit.py": Path(kit.__file__)})


def pack(out: Path, *arguments: str) -> str:
    answer = CliRunner().invoke(app, ["bundle", "kit", str(out), "--no-wheels", *arguments])
    return f"{answer.stdout}{answer.exception or ''}"


def run_kit(folder: Path, *arguments: str, **more: str) -> tuple[int, list[str]]:
    stub = folder / "python"
    stub.write_text(PYTHON)
    stub.chmod(0o755)
    env = {
        **os.environ,
        "PYTHON": str(stub),
        "WORK": str(folder / "work"),
        "OUT": str(folder / "back"),
        **more,
    }
    command = ["bash", str(folder / "kit" / "run.sh"), *arguments]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, (done.stdout + done.stderr).splitlines()


@pytest.mark.usefixtures("small_source")
def test_bundles_are_judged_one_after_the_other_and_results_come_back(tmp_path: Path) -> None:
    made().write(tmp_path / "first")
    made(canaries=1).write(tmp_path / "second.tar.gz")
    said = pack(
        tmp_path / "kit", "--bundle", str(tmp_path / "first"), "--bundle", str(tmp_path / "second.tar.gz")
    )
    assert "2 bundles" in said
    code, lines = run_kit(tmp_path, "start", "60", "--quick")
    judged = [line.split() for line in lines if line.startswith("judged:")]
    assert [Path(words[1]).name for words in judged] == ["first", "second"]
    assert all(words[-1] == "--quick" for words in judged)
    assert code == 1, "the exit status of the work"
    with tarfile.open(tmp_path / "back" / "results.tgz") as archive:
        names = archive.getnames()
    assert {"./results/first/bundle/signature.json", "./work.log"} <= set(names)
    assert not [name for name in names if "cache" in name]


@pytest.mark.usefixtures("small_source")
def test_results_of_another_bundle_are_put_aside(tmp_path: Path) -> None:
    made().write(tmp_path / "first")
    pack(tmp_path / "kit", "--bundle", str(tmp_path / "first"))
    run_kit(tmp_path, "start", "60")
    (tmp_path / "other").mkdir()
    made(canaries=1).write(tmp_path / "other" / "first")
    pack(tmp_path / "kit", "--bundle", str(tmp_path / "other" / "first"))
    run_kit(tmp_path, "start", "60")
    out = tmp_path / "work" / "out"
    signatures = [out / place / "first" / "bundle" / "signature.json" for place in ("results", "aside")]
    assert signatures[0].read_text() != signatures[1].read_text()
    assert (
        signatures[0].read_text() == (tmp_path / "kit" / "bundles" / "first" / "signature.json").read_text()
    )


@pytest.mark.usefixtures("small_source")
def test_a_script_of_ones_own_is_run_with_what_was_packed_for_it(tmp_path: Path) -> None:
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "1_one.py").write_text("text")
    (tmp_path / "mine.sh").write_text('ls "$KIT/files/tasks" "$SOURCE"; echo "$*" > "$RESULTS/answer"\n')
    pack(tmp_path / "kit", "--work", str(tmp_path / "mine.sh"), "--with", str(tmp_path / "tasks"))
    code, lines = run_kit(tmp_path, "start", "5", "more")
    assert code == 0
    assert {"1_one.py", "src"} <= set(lines)
    assert (tmp_path / "work" / "out" / "answer").read_text() == "5 more\n"


@pytest.mark.usefixtures("small_source")
@pytest.mark.parametrize(
    "arguments", [(), ("start",), ("start", "x"), ("wait", "0"), ("wait", "1", "2"), ("stop",)]
)
def test_a_bad_call_of_the_script_is_one_line(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    (tmp_path / "mine.sh").write_text("true\n")
    pack(tmp_path / "kit", "--work", str(tmp_path / "mine.sh"))
    code, lines = run_kit(tmp_path, *arguments)
    assert code == 2
    assert lines[0].startswith("error: run.sh start SECONDS")


def test_bad_input_is_told(tmp_path: Path) -> None:
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "mine").touch()
    made().write(tmp_path / "b")
    (tmp_path / "other").mkdir()
    made().write(tmp_path / "other" / "b")
    bundle = ("--bundle", str(tmp_path / "b"))
    assert "give --bundle or --work" in pack(tmp_path / "kit")
    assert "something else than a kit" in pack(tmp_path / "foreign", *bundle)
    assert "two bundles have one name" in pack(
        tmp_path / "kit", *bundle, "--bundle", str(tmp_path / "other" / "b")
    )
    assert "is no file" in pack(tmp_path / "kit", "--work", str(tmp_path / "none.sh"))
    assert "none is not there" in pack(tmp_path / "kit", *bundle, "--with", str(tmp_path / "none"))
    with pytest.raises(UsageError, match="nobodys-package is not installed here"):
        list_requirements("3.12", ["nobodys-package"])


def test_what_is_needed_leaves_out_what_is_there_and_extras() -> None:
    names = {line.partition("==")[0] for line in list_requirements("3.12")}
    assert {"pydantic", "pydantic-core", "psutil", "typer", "typing-extensions", "rich"} <= names
    assert not names & {"torch", "numpy", "sympy", "openai", "scikit-learn", "warpsmith"}
    assert {"pytest", "iniconfig"} <= {
        line.partition("==")[0] for line in list_requirements("3.12", ["pytest"])
    }


def test_source_is_the_checkout_or_else_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    named = kit.find_source_files()
    assert named["src/warpsmith/bundles/kit.py"] == Path(kit.__file__).resolve()
    monkeypatch.setattr(kit, "ROOT", tmp_path)  # no checkout
    assert kit.find_source_files()["src/warpsmith/bundles/kit_run.sh"].is_file()
    assert not [name for name in kit.find_source_files() if name.endswith(".pyc")]
    monkeypatch.setattr(kit, "find_source_files", lambda: {"src/a.py": Path(kit.__file__)})
    kit.pack_source(tmp_path / "source.tar.gz")
    first = (tmp_path / "source.tar.gz").read_bytes()
    kit.pack_source(tmp_path / "source.tar.gz")
    assert (tmp_path / "source.tar.gz").read_bytes() == first

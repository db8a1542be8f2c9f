"""`warpsmith site build`: where it writes, what it refuses, and what it prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from warpsmith import machine
from warpsmith.archive import Archive
from warpsmith.errors import UsageError
from warpsmith.site import build_site
from warpsmith.testing import chain_candidate, chain_task, scripted_result


@pytest.fixture(autouse=True)
def archives(tmp_path: Path) -> list[Archive]:
    opened = [Archive(tmp_path / name) for name in ("a.db", "b.db")]
    environment = machine.describe()
    for number, archive in enumerate(opened):
        archive.begin_run(f"run-{number}", chain_task(), "cpu", 7, {}, environment)
        candidate = chain_candidate(f"v{number}")
        archive.add_result(f"run-{number}", candidate, scripted_result(candidate, 2.0, environment.id))
    return opened


def build(command: Any, *flags: str) -> tuple[int, str, str]:
    return command("site", "build", "out", "--archive", "a.db", "--archive", "b.db", *flags)


def test_a_site_is_written_and_named(command: Any) -> None:
    code, out, err = build(command)
    assert (code, out.split(" in ")[0]) == (0, "wrote out: 1 task, 2 kernels, 2 runs")
    assert "task 1 of 1: chain" in err
    assert Path("out/index.html").is_file()
    assert Path("out").stat().st_mode & 0o777 == 0o755  # whoever serves it may read it


def test_json_counts_what_was_written(command: Any) -> None:
    code, out, err = build(command, "--json", "-", "--quiet")
    assert (code, err) == (0, "")
    counts = json.loads(out)
    assert (counts["tasks"], counts["kernels"], counts["site"]) == (1, 2, "out")
    assert counts["bytes"] == sum(p.stat().st_size for p in Path("out").rglob("*") if p.is_file())


def test_an_archive_that_is_not_there_is_one_line(command: Any) -> None:
    code, out, err = command("site", "build", "out", "--archive", "a.db", "--archive", "none.db")
    assert (code, out, err.count("\n")) == (4, "", 1)
    assert "none.db" in err
    assert not Path("out").exists()
    assert not Path("none.db").exists()


def test_a_folder_with_other_files_is_left_alone(command: Any) -> None:
    Path("out").mkdir()
    Path("out/thesis.tex").write_text("years of work")
    for flags in ((), ("--force",)):
        code, _, err = build(command, *flags)
        assert (code, err.count("\n")) == (2, 1)
        assert "other files" in err
    assert Path("out/thesis.tex").read_text() == "years of work"


def test_a_site_is_built_anew_only_if_told(command: Any) -> None:
    assert build(command, "-q")[0] == 0
    Path("out/kernels/old.html").write_text("of a kernel that is gone")
    code, _, err = build(command, "-q")
    assert (code, "--force" in err) == (2, True)
    assert build(command, "-q", "--force")[0] == 0
    assert not Path("out/kernels/old.html").exists()


@pytest.mark.parametrize("place", ["a.db", "a.db/out"])
def test_a_place_that_cannot_be_is_one_line(command: Any, place: str) -> None:
    code, _, err = command("site", "build", place, "--archive", "b.db", "-q")
    assert (code, err.count("\n")) == (2, 1)


def test_an_interrupted_build_leaves_the_site_of_before(archives: list[Archive], tmp_path: Path) -> None:
    out = tmp_path / "out"
    build_site(archives[:1], out)
    before, listing = (out / "index.html").read_bytes(), sorted(tmp_path.iterdir())

    def interrupt(text: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_site(archives, out, force=True, tell=interrupt)
    assert (out / "index.html").read_bytes() == before
    assert sorted(tmp_path.iterdir()) == listing
    with pytest.raises(UsageError, match="--force"):
        build_site(archives, out)

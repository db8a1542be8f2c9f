"""`warpsmith judge-files`: which files count, what is told of each, and that one that cannot be judged costs the others nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from warpsmith import api
from warpsmith.cli.judge_files import find_task, render_table
from warpsmith.errors import TaskError
from warpsmith.records import Ratio
from warpsmith.solutions.verdict import SolutionVerdict

BEST = Ratio(baseline="compile", median=1.5, low=1.4, high=1.6)


def verdict(path: Path, status: str = "correct") -> SolutionVerdict:
    return SolutionVerdict(
        solution=str(path), task="t", target="cpu", verdict=status, label="kernel", labels=(),  # type: ignore[arg-type]
        reasons=() if status == "correct" else ("budget (main): off by 2 | 3",),
        speedup={"compile": BEST, "best": BEST} if status == "correct" else {}, parameters="none", isolation="landlock7",
        hardware="Test CPU", seed=1,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "task"),
    [
        ("# warpsmith-task: task.py\n", "sub/task.py"), ("import x\n  // warpsmith-task:  ../t.py  \n", "sub/../t.py"),
        ("# warpsmith-task: package.module:Class\n", "package.module:Class"), ("x = 'warpsmith-task: t.py'\n", ""),
        ("# warpsmith-task:\nt.py\n", ""), ("", ""),
    ],
)  # fmt: skip
def test_task_is_named_by_a_comment(
    text: str, task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sub").mkdir()
    Path("sub/kernel.py").write_text(text)
    assert find_task(Path("sub/kernel.py")) == task


def test_bytes_that_are_no_text_name_no_task(tmp_path: Path) -> None:
    (tmp_path / "image.png").write_bytes(b"\x89PNG\xff# warpsmith-task: t.py\n")
    assert find_task(tmp_path / "image.png") == ""


def test_every_file_has_its_row(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("right", "wrong", "lost"):
        Path(f"{name}.py").write_text(f"# warpsmith-task: {name}_task.py\n")
    Path("readme.md").write_text("nothing\n")
    asked: list[tuple[Path, str]] = []

    def judge(solution: Path, task: str, **_: Any) -> SolutionVerdict:
        asked.append((solution, task))
        if solution.stem == "lost":
            raise TaskError("lost_task.py is not there")
        return verdict(solution, "correct" if solution.stem == "right" else "incorrect")

    monkeypatch.setattr(api, "judge_file", judge)
    files = ("lost.py", "readme.md", "wrong.py", "right.py")
    code, out, _ = command("judge-files", *files, "--json", "rows.json", "--markdown", "table.md", "--quiet")
    assert code == 1
    assert [(str(s), t) for s, t in asked] == [
        (f"{n}.py", f"{n}_task.py") for n in ("lost", "wrong", "right")
    ]
    assert out.splitlines() == [
        "lost.py: error: lost_task.py is not there",
        "wrong.py: incorrect: budget (main): off by 2 | 3",
        "right.py: correct (kernel): 1.50x [1.40, 1.60] over compile",
    ]
    rows = json.loads(Path("rows.json").read_text())
    assert [r["verdict"] for r in rows] == ["error", "incorrect", "correct"]
    assert Path("table.md").read_text() == render_table(rows)
    assert "| wrong.py | wrong\\_task.py |".replace("\\_", "_") in render_table(rows)
    assert "off by 2 \\| 3 |" in render_table(rows)
    command("judge-files", "right.py", "--markdown", "table.md", "--quiet")
    assert Path("table.md").read_text().count("| kernel | task |") == 2, "a summary is added to"
    assert command("judge-files", "right.py", "--quiet")[0] == 0


def test_files_without_a_task_are_nothing_to_judge(command: Any) -> None:
    Path("a.py").write_text("x = 1\n")
    code, out, _ = command("judge-files", "a.py", "--markdown", "table.md")
    assert code == 0
    assert "nothing to judge" in out
    assert not Path("table.md").exists()
    assert command("judge-files", "a.py", "--json", "-")[1].strip() == "[]"
    code, _, err = command("judge-files", "missing.py")
    assert (code, err.count("\n")) == (2, 1)

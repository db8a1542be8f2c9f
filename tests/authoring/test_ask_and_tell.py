"""`ask`, `tell` and `board` as commands: by formula, and once with a real task and the real judge."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from scripted_author_session import ScriptedAuthorSession, unit

from warpsmith.authoring.service import AuthoringService
from warpsmith.records import Task


@pytest.fixture
def real(command: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """As everywhere, with the places that `warpsmith.toml` names, and the real judge."""
    for name in ("ARCHIVE", "CACHE"):
        monkeypatch.delenv(f"WARPSMITH_{name}")
    return command


@pytest.fixture
def scripted(command: Any, service: AuthoringService, task: Task, monkeypatch: pytest.MonkeyPatch) -> Any:
    """As everywhere, with the service's archive and cache."""
    monkeypatch.setenv("WARPSMITH_CACHE", str(service.config.cache))
    monkeypatch.setenv("WARPSMITH_ARCHIVE", str(service.config.archive))
    return command


def test_ask_then_tell(scripted: Any, task: Task, tmp_path: Path) -> None:
    code, out, _ = scripted("ask", f"archive:{task.id}", "--region", "n0")
    assert (code, out) == (0, "ask/chain\n")
    answers = tmp_path / "ask" / "chain" / "answer"
    (answers / "good.cpp").write_text(unit(2.0))
    code, out, _ = scripted("tell", "ask/chain", "--author", "Ada", "--json", "told.json")
    assert code == 0
    assert out.startswith("chain: correct, a win: candidate ")
    assert "2.00x [1.96, 2.04] over eager" in out
    view = json.loads((tmp_path / "told.json").read_text())[0]
    assert (view["units"], view["author"], view["win"]) == (["n0"], "Ada", True)
    (answers / "wrong.cpp").write_text(unit("incorrect"))
    code, out, _ = scripted("tell", "ask/chain", "--json", "-")
    assert (code, [s["status"] for s in json.loads(out)]) == (1, ["ok", "incorrect"])
    code, out, _ = scripted("board", f"archive:{task.id}")
    assert code == 0
    assert out.startswith("1. 2.00x [1.96, 2.04] over eager, 50 µs, 20% of the limit, confirmed: 2.0 by Ada")
    assert ScriptedAuthorSession.opened == 2  # once a command


def test_tell_a_file_for_a_task_onto_the_best(scripted: Any, task: Task, tmp_path: Path) -> None:
    for name, outcome in (("a.cpp", 1.5), ("b.cpp", 1.6)):
        (tmp_path / name).write_text(unit(outcome))
    spec = f"archive:{task.id}"
    assert scripted("tell", "a.cpp", "--task", spec, "--region", "n0", "--quiet")[0] == 0
    code, out, _ = scripted(
        "tell", "b.cpp", "--task", spec, "--region", "n1", "--onto", "best", "--json", "-"
    )
    assert (code, json.loads(out)[0]["units"]) == (0, ["n0", "n1"])


def test_ask_for_several_tasks(scripted: Any, service: AuthoringService, task: Task, tmp_path: Path) -> None:
    other = task.model_copy(update={"name": "other"})
    service.archive.add_task(other)
    code, out, _ = scripted(
        "ask", f"archive:{task.id}", f"archive:{other.id}", "--out", "all", "--target", "cuda"
    )
    assert (code, out) == (0, "all/chain\nall/other\n")
    assert "__constant__" in (tmp_path / "all" / "other" / "task.h").read_text()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("ask", "none.py"), "cannot read none.py"),
        (("ask", "SPEC", "--region", "9"), "there is no region 9"),
        (("ask", "SPEC", "--out", "full"), "full holds something else"),
        (("ask", "SPEC", "--target", "tpu"), "known: cpu, cuda"),
        (("tell", "full"), "was not written by `warpsmith ask`"),
        (("tell", "none.cpp", "--task", "SPEC"), "none.cpp is not a file"),
        (("tell", "full/bad.cpp", "--task", "SPEC"), "bad.cpp, line 1: a unit's source starts with"),
        (("tell", "full/bad.cpp"), "say with --task"),
        (("mcp", "--http", "0"), "give a port"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    scripted: Any, task: Task, tmp_path: Path, arguments: tuple[str, ...], says: str
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "bad.cpp").write_text("int x;\n")
    code, out, err = scripted(*(f"archive:{task.id}" if a == "SPEC" else a for a in arguments))
    assert (code, out) == (2, "")
    assert says in err.splitlines()[-1]
    assert ScriptedAuthorSession.opened == 0


def test_telling_for_a_gpu_without_one(
    scripted: Any, task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warpsmith.machine.gpu", lambda: None)
    scripted("ask", f"archive:{task.id}", "--target", "cuda")
    (tmp_path / "ask" / "chain" / "answer" / "a.cu").write_text(unit(1.0))
    code, _, err = scripted("tell", "ask/chain")
    assert code == 2
    assert "warpsmith bundle create" in err


TASK = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, 1) * 3.0
def get_inputs():
    return [torch.rand(96, 400)]
"""


@pytest.mark.slow
@pytest.mark.alone  # its timing must count
def test_a_real_task_from_ask_to_the_report(
    real: Any,
    tmp_path: Path,
    with_peaks: Callable[[Path], Path],
    few_rounds: Callable[[], AbstractContextManager[None]],
) -> None:
    (tmp_path / "warpsmith.toml").write_text(
        'archive = "archive.db"\ncache = "cache"\nbaselines = ["eager"]\n'
    )  # places that are relative
    (tmp_path / "task.py").write_text(TASK)
    with_peaks(tmp_path / "cache")
    code, out, err = real("ask", "task.py")
    assert code == 0, err
    folder = tmp_path / out.strip()
    assert "speed-of-light limit on" in (folder / "graph.md").read_text()
    assert (folder / "task.py").read_text() == TASK
    answer = (folder / "example.cpp").read_text()
    (folder / "answer" / "good.cpp").write_text(answer)
    (folder / "answer" / "typo.cpp").write_text(answer.replace("void unit(", "void unit(nothing, "))
    with few_rounds():
        code, out, err = real("tell", str(folder), "--author", "Ada", "--json", "-", "--quiet")
    assert code == 1, err
    good, typo = json.loads(out)
    assert good["correct"], f"{good['status']}: {good['reason']}"
    assert good["labels"][0] == "kernel"
    assert typo["status"] == "build-failed"
    assert typo["evidence"]
    code, out, _ = real("tell", str(folder / "answer" / "typo.cpp"), "--json", "-")
    assert code == 1
    assert any("judged before" in note for note in json.loads(out)[0]["notes"])
    code, out, err = real("report", good["run"], "--format", "markdown")
    assert code == 0, err
    assert "given" in out
    assert (tmp_path / "archive.db").exists()

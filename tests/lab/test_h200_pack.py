"""What is packed for a machine with a GPU, in which order, with which candidates first, and the script that judges it there."""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from warpsmith.bundles import kit

ROOT = Path(__file__).resolve().parents[2]
SOFTMAX = (
    "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return torch.softmax(x, 1)\n"
    "def get_inputs():\n    return [torch.rand(64, 512)]\ndef get_init_inputs():\n    return []\n"
)
STUB = """#!/usr/bin/env bash
case "$*" in
"-m "*) ;;
*)  echo "asked: ${*:3}"
    for turn in {1..1200}; do [ -z "$UNTIL" ] || [ -e "$UNTIL" ] || sleep 0.1; done
    echo found > "$3/results/verdict"; echo "$PYTHONPATH"; exit 3 ;;
esac
"""


@pytest.fixture(autouse=True)
def _lab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "lab"))
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "bundles"))


@pytest.fixture
def packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Tasks whose bundles were written, each a made-up one; level1/3 cannot be packed, level1/2 takes most memory."""
    import h200_campaign
    import h200_pack
    from bundle_sample import made

    names: list[str] = []

    def pack(campaign: Any, work: Any) -> Any:
        if work.name == "level1/3":
            work.failed = "not packed: too large"
        elif not work.bundle.exists():
            names.append(work.label)
            made().write(work.bundle)
        work.host, work.device = 6.0, 90.0 if work.name == "level1/2" else 9.0
        return work

    monkeypatch.setattr(h200_campaign.Campaign, "pack", pack)
    monkeypatch.setattr(h200_pack, "CANARIES", ())
    name = "lab/cuda_expert.py"
    monkeypatch.setattr(kit, "find_source_files", lambda: {name: ROOT / name})
    monkeypatch.setattr(kit, "count_uncommitted", lambda: 0)
    level = tmp_path / "kb" / "KernelBench" / "level1"
    level.mkdir(parents=True)
    for number in range(1, 6):
        (level / f"{number}_Task.py").write_text(SOFTMAX)
    monkeypatch.chdir(tmp_path)
    return names


def write(name: str, *rows: Any) -> str:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return name


def look(task: str, *candidates: tuple[str, float], error: float = 0.0) -> dict[str, Any]:
    seen = [{"label": label, "us": us, "error": error} for label, us in candidates]
    return {"task": task, "library": {"us": 100.0, "error": 0.0}, "candidates": seen}


TASKS = [word for n in range(1, 6) for word in ("--task", f"level1/{n}")]


def test_what_has_no_verdict_is_packed_what_may_win_first(
    packed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    import h200_pack

    verdict = {"task": "level1/1", "file": "1_Task.py", "status": "no win", "reason": ""}
    rows = write("rows.jsonl", verdict, {**verdict, "task": "level1/4", "status": "not confirmed"})
    looks = write("looks.jsonl", look("level1/2", ("x A=1", 40.0)), look("level1/4", ("x A=1", 140.0)))
    command = ["kb", "out", *TASKS, "--rows", rows, "--looks", looks, "--no-wheels"]
    assert h200_pack.main(command) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[-2:] == [
        "order: level1/2 level1/5 level1/4",
        f"wrote out: 3 tasks, 1 not packed, {said[-1].split()[-2]} MiB",
    ]
    assert sorted(f.name for f in Path("out/bundles").iterdir()) == ["level1_2", "level1_4", "level1_5"]
    assert sorted(f.name for f in Path("out/kernelbench/KernelBench/level1").iterdir()) == [
        f"{n}_Task.py" for n in (2, 4, 5)
    ]
    assert "TASKS=(level1/2 level1/5 level1/4)" in Path("out/work.sh").read_text()
    with tarfile.open("out/warpsmith.tar.gz") as source:
        assert source.getnames() == ["lab/cuda_expert.py"]
    packed.clear()
    assert h200_pack.main([*command, "--again", "level1/1"]) == 0
    assert packed == ["level1/1"], "the others are as they were"
    assert "order: level1/2 level1/1 level1/5 level1/4" in capsys.readouterr().out
    write("looks.jsonl", look("level1/2", ("x A=2", 40.0)), look("level1/4", ("x A=1", 140.0)))
    packed.clear()
    assert h200_pack.main(command) == 0
    assert packed == ["level1/2"], "its looks are others"
    packed.clear()
    assert h200_pack.main([*command, "--whole", "level1/5"]) == 0
    assert packed == ["level1/5"], "it may be of other sizes now"
    assert not Path("out/bundles/level1_1").exists(), "it was not asked for any more"
    packed.clear()
    assert h200_pack.main([*command, "--force"]) == 0
    assert sorted(packed) == ["level1/2", "level1/4", "level1/5"]


def test_canaries_are_packed_beside_the_tasks_and_stay(
    packed: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import h200_pack

    monkeypatch.setattr(h200_pack, "CANARIES", ("level1/5",))
    command = ["kb", "out", "--task", "level1/1", "--no-wheels"]
    assert h200_pack.main(command) == 0
    assert sorted(packed) == ["level1/1", "level1/5 (canary)"]
    assert h200_pack.main(command) == 0
    assert len(packed) == 2, "as they were"
    assert sorted(f.name for f in Path("out/bundles").iterdir()) == ["canary_level1_5", "level1_1"]
    assert "TASKS=(level1/1)" in Path("out/work.sh").read_text()
    assert "1 tasks, 0 not packed" in capsys.readouterr().out
    assert h200_pack.main([*command, "--no-canaries"]) == 0
    assert [f.name for f in Path("out/bundles").iterdir()] == ["level1_1"]


def test_what_may_win_is_told_against_the_fastest_baseline() -> None:
    from cuda_expert import Look
    from h200_pack import Packed, Work, expected, turn

    seen = {"a": [Look(2.0, "x"), Look(1.5, "y")], "b": [Look(2.0, "x")], "c": [Look(2.0, "x")]}
    rows = {
        "a": {
            "task": "a",
            "baselines": {"eager": 10.0, "compile": 5.0},
            "ratios": {"eager": [9.0, 8.0, 10.0]},
        },
        "d": {"task": "d", "unconfirmed": {"ratios": {"eager": [3.0, 2.9, 3.1], "compile": [1.2, 1.1, 1.3]}}},
    }
    assert expected(seen, rows, {"b": 0.75}) == {"a": 1.0, "b": 1.5, "c": 2.0, "d": 1.2}
    works = [
        Packed(Work(str(promise), Path(), Path(), device=device), promise)
        for promise, device in ((0.5, 1.0), (1.0, 1.0), (None, 5.0), (None, 4.0), (1.2, 80.0), (3.0, 90.0))
    ]
    assert [p.work.name for p in sorted(works, key=turn)] == ["1.2", "3.0", "None", "None", "1.0", "0.5"]
    assert [p.work.device for p in sorted(works, key=turn)][2:4] == [4.0, 5.0]


def test_looks_lead_the_candidates(capsys: pytest.CaptureFixture[str]) -> None:
    from cuda_expert import Look, candidates

    from warpsmith.testing import chain_task

    task = chain_task()
    own = [c.units[0] for c, _ in candidates(task, 4)]
    first = own[0]
    seen = [
        Look(9.0, f"{first.technique} RENAMED=1"), Look(8.0, f"{first.technique} VEC=12345"), Look(7.0, "no such label = 1"),
        Look(6.0, f"{first.family}/{first.technique} UNROLL=4,VEC=2"), Look(5.5, "no-such UNROLL=4"), Look(5.0, f"{first.technique} UNROLL=4"),
        Look(4.0, f"{first.technique} VEC=2"),
    ]  # fmt: skip
    found = [c.units[0] for c, _ in candidates(task, 4, seen)]
    assert [u.values for u in found[:2]] == [
        first.values | {"UNROLL": 4, "VEC": 2},
        first.values | {"UNROLL": 4},
    ]
    assert found[2:] == own[:2], "then what the expert proposes"
    assert capsys.readouterr().out.count("\n") == 1, "one line for all that are written no more"
    assert len(candidates(task, 1, seen)) == 1


def test_looks_are_ranked_the_best_of_each_near_technique_first(tmp_path: Path) -> None:
    from cuda_expert import looks

    rows = [
        look("a", ("x A=1", 20.0), ("x A=2", 10.0), ("y B=1", 11.0), ("z C=1", 15.0)), look("a", ("w D=1", 1.0), error=1.0),
        {"task": "b", "failed": "cannot be exported"},
    ]  # fmt: skip
    (tmp_path / "looks").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [one.label for one in looks([tmp_path / "looks"])["a"]] == ["x A=2", "y B=1", "z C=1", "x A=1"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["none", "out"], "none is no checkout of KernelBench"),
        (["kb", "out", "--task", "level1/99"], "no task level1/99"),
        (["kb", "out", "--again", "level3/1", "--task", "level1/1"], "no task level3/1"),
        (["kb", "out", "--looks", "none.jsonl"], "none.jsonl holds no rows of cuda_look.py"),
        (["kb", "out", "--looks", "text"], "text holds no rows of cuda_look.py"),
        (["kb", "out", "--rows", "text"], "text holds no rows of h200_report.py"),
        (["kb", "out", "--baselines", "text"], "text holds no rows with task"),
        (["kb", "foreign"], "foreign holds something else than a kit"),
        (["kb", "text"], "text is no folder"),
    ],
)
def test_bad_input_is_one_line(
    packed: list[str], capsys: pytest.CaptureFixture[str], more: list[str], words: str
) -> None:
    import h200_pack

    Path("foreign").mkdir()
    Path("foreign/mine").touch()
    Path("text").write_text("some text\n")
    assert h200_pack.main([*more, *([] if "--task" in more else TASKS), "--no-wheels"]) == 2
    said = capsys.readouterr()
    assert said.err.startswith("error: ")
    assert words in said.err
    assert said.err.count("\n") == 1
    assert not packed
    assert not Path("out").exists()


def test_nothing_to_judge_is_one_line(packed: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    import h200_pack

    rows = write("rows.jsonl", {"task": "level1/1", "file": "1_Task.py", "status": "win", "reason": ""})
    for task, words in (
        ("level1/1", "every task has a verdict"),
        ("level1/3", "none of 1 tasks could be packed"),
    ):
        assert h200_pack.main(["kb", "out", "--task", task, "--rows", rows, "--no-wheels"]) == 2
        assert words in capsys.readouterr().err
    assert not Path("out/run.sh").exists()


def run_sh(tmp_path: Path, *arguments: str, **more: str) -> tuple[int, list[str]]:
    stub = tmp_path / "python"
    stub.write_text(STUB)
    stub.chmod(0o755)
    env = {
        **os.environ,
        "PYTHON": str(stub),
        "WORK": str(tmp_path / "work"),
        "OUT": str(tmp_path / "back"),
        "UNTIL": "",
        **more,
    }
    ran = subprocess.run(
        ["bash", "out/run.sh", *arguments], env=env, capture_output=True, text=True, timeout=60
    )
    return ran.returncode, (ran.stdout + ran.stderr).splitlines()


def results(tmp_path: Path) -> set[str]:
    with tarfile.open(tmp_path / "back" / "results.tgz") as archive:
        return set(archive.getnames())


def test_a_campaign_goes_on_over_several_calls(packed: list[str], tmp_path: Path) -> None:
    import h200_pack

    assert h200_pack.main(["kb", "out", "--task", "level1/1", "--task", "level1/2", "--no-wheels"]) == 0
    assert subprocess.run(["bash", "-n", "out/work.sh"]).returncode == 0
    assert run_sh(tmp_path, "wait", "5") == (
        2,
        ["error: no work was started: run.sh start SECONDS"],
    )
    for bad in ((), ("start", "60"), ("start", "60", "x"), ("wait", "0"), ("stop",)):
        assert run_sh(tmp_path, *bad)[0] == 2
    until = tmp_path / "let it end"
    slow = {"WAIT": "1", "UNTIL": str(until)}
    code, said = run_sh(tmp_path, "start", "60", "4", OPTIONS="--gpu-memory 99", **slow)
    while len(said) < 2:  # a busy machine
        assert (code, said[0].endswith("the work goes on")) == (0, True)
        code, said = run_sh(tmp_path, "wait", "1")
    assert (code, len(said)) == (0, 2)
    asked = said[0].split()
    assert asked[-4:] == ["--task", "level1/2", "--gpu-memory", "99"]
    assert [asked[asked.index(name) + 1] for name in ("--seconds", "--lanes")] == ["60", "4"]
    assert said[1].endswith("the work goes on")
    assert "./work.log" in results(tmp_path)
    assert "./results/verdict" not in results(tmp_path)
    code, said = run_sh(tmp_path, "start", "60", "4", **slow)
    assert said[0] == "work is under way: it goes on"
    until.touch()
    code, said = run_sh(tmp_path, "wait", "20")
    assert code == 3, "its exit status"
    assert said[-2].startswith(f"{tmp_path}/work/warpsmith/src:{tmp_path}/work/site")
    assert said[-1].endswith("the work has ended")
    assert "./results/verdict" in results(tmp_path)
    assert (tmp_path / "work" / "out" / "bundles" / "level1_1" / "manifest.json").is_file()


def test_a_campaign_whose_process_nobody_has_waited_for_is_over(packed: list[str], tmp_path: Path) -> None:
    import h200_pack

    assert h200_pack.main(["kb", "out", "--task", "level1/1", "--no-wheels"]) == 0
    assert run_sh(tmp_path, "start", "60", "4")[0] == 3
    (tmp_path / "work" / "pid").write_text(str(os.getpid()))  # as a process that is still listed
    code, said = run_sh(tmp_path, "wait", "60")
    assert (code, said[-1].endswith("the work has ended")) == (3, True)


def test_a_campaign_goes_on_from_results_of_the_same_bundles(packed: list[str], tmp_path: Path) -> None:
    import h200_pack

    assert h200_pack.main(["kb", "out", "--task", "level1/1", "--task", "level1/2", "--no-wheels"]) == 0
    before = tmp_path / "before" / "results"
    for name, text in (
        ("level1_1", Path("out/bundles/level1_1/signature.json").read_text()),
        ("level1_2", "another"),
    ):
        (before / name / "bundle").mkdir(parents=True)
        (before / name / "bundle" / "signature.json").write_text(text)
    with tarfile.open("out/results.tgz", "w:gz") as archive:
        archive.add(before, "results")
    assert run_sh(tmp_path, "start", "60", "4")[0] == 3
    camp = tmp_path / "work" / "out"
    assert (camp / "results" / "level1_1").is_dir()
    assert (camp / "aside" / "level1_2").is_dir()
    assert not (camp / "results" / "level1_2").exists()

"""The page of the inner loop says what its rows say, losses too."""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from warpsmith.records import RunSummary

LINES = [
    (1.0, "loading task.py"), (4.0, "measuring what this machine can do"), (5.0, "searching"),
    (9.0, "judged 0/100: screened, 1 screened, nothing faster yet, 26s left"), (10.0, "timing the baselines"), (12.0, "searching"),
    (15.0, "judged 1/100: ok, 12 screened, best 1.50x [1.40, 1.60] over eager, 18s left"),
]  # fmt: skip


EVALUATION = """
import os

def eval_kernel_against_ref(reference, model, **settings):
    return f"{reference} {'scale_rows' * ('scale_rows' in model)} {os.getpid()}"
"""


@pytest.fixture
def inner_loop(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[1] / "benchmarks"))
    return importlib.import_module("inner_loop")


def make_row(
    inner_loop: ModuleType, task: str, screened: int, verdicts: list[dict[str, object]]
) -> dict[str, object]:
    stages = {
        "limit": 1.0,
        "baselines": 2.0,
        "screening": 15.0,
        "judging": 10.0,
        "proposing": 5.0,
        "confirmation": 20.0,
    }
    summary = RunSummary(
        run_id="r", task=task, target="cuda", status="no-win", screened=screened, evaluations=3, seconds_by_stage=stages
    )  # fmt: skip
    return {
        "task": task, "repeat": 0, "machine": "a machine", "seconds": 60.0, **inner_loop.find_moments(LINES),
        "summary": summary.model_dump(mode="json"), "verdicts": verdicts, "gpu_idle": 0.75, "log": [],
    }  # fmt: skip


def test_moments_are_read_from_what_a_run_prints(inner_loop: ModuleType) -> None:
    assert inner_loop.find_moments(LINES) == {
        "loaded_s": 4.0, "search_began_s": 5.0, "first_screened_s": 9.0, "first_judged_s": 15.0,
    }  # fmt: skip
    assert set(inner_loop.find_moments([]).values()) == {None}


def test_rates_are_of_the_search_alone(inner_loop: ModuleType) -> None:
    row = make_row(inner_loop, "a", 30, [])
    assert inner_loop.find_rate(row, 30) == pytest.approx(60.0)
    cells = inner_loop.describe_row(row)
    assert cells[3:10] == ("60", "6", "3", "4 s", "3 s", "30 s", "20 s")
    assert cells[10] == "75%"


def test_the_page_tells_what_screening_let_through_and_how_it_ranks(inner_loop: ModuleType) -> None:
    verdicts = [
        {
            "candidate": name, "status": status, "reason": "", "estimate": estimate, "measured": measured,
            "estimate_us": estimate_us, "measured_us": measured_us,
        }
        for name, status, estimate, measured, estimate_us, measured_us in (  # the first is over eager, the others over the best
            ("a", "ok", 3.0, 1.0, 10.0, 14.0), ("b", "ok", 2.0, 1.5, 9.0, 12.0), ("c", "ok", 1.0, 0.7, 30.0, 31.0),
            ("d", "incorrect", 4.0, None, 8.0, None),
        )
    ]  # fmt: skip
    lost = {**make_row(inner_loop, "b", 0, []), "summary": None, "log": ["1.0 broken"]}
    page = inner_loop.make_page([make_row(inner_loop, "a", 30, verdicts), lost])
    assert "1 of 2 runs ended with a summary" in page
    assert "Of 4 candidates that passed screening and were judged, 3 were correct" in page
    assert "1.00 (median of 1 runs)" in page
    assert "broken" in page
    assert "KernelBench" not in page


def test_the_page_tells_where_the_quickest_candidate_spends_its_time(inner_loop: ModuleType) -> None:
    slow, quick = (
        {
            "candidate": name, "status": "ok", "reason": "", "estimate": None, "measured": None, "estimate_us": None,
            "measured_us": us, "units": [["norm/multi-pass", "layer norm", us / 4], ["matmul/skinny", "product", us / 2]],
        }
        for name, us in (("a", 90.0), ("b", 80.0))
    )  # fmt: skip
    lost = {**slow, "measured_us": None, "units": []}
    page = inner_loop.make_page([make_row(inner_loop, "t", 30, [slow, quick, lost])])
    rows = [line for line in page.splitlines() if line.startswith("| t |")][1:]
    assert rows == [
        "| t | product | matmul/skinny | 40.0 | 50% |",
        "| t | layer norm | norm/multi-pass | 20.0 | 25% |",
    ]
    assert "alone" not in inner_loop.make_page([make_row(inner_loop, "t", 30, [lost])])


def test_the_page_tells_why_candidates_failed(inner_loop: ModuleType) -> None:
    row = make_row(inner_loop, "a", 30, [])
    assert "that failed" not in inner_loop.make_page([row])  # rows of earlier versions say nothing of it
    row["failures"] = [
        {"candidate": "norm/odd", "status": "incorrect", "count": 16, "reason": "3 elements are off"}
    ]
    assert "| a | norm/odd | 16 | incorrect | 3 elements are off |" in inner_loop.make_page([row])


def test_failures_of_a_run_are_counted_with_their_first_reason(
    inner_loop: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def entry(branch: str, status: str, reason: str) -> SimpleNamespace:
        return SimpleNamespace(
            candidate=SimpleNamespace(lineage=SimpleNamespace(branch=branch)),
            result=SimpleNamespace(status=status, reason=reason),
        )

    entries = [
        entry("good", "screened", ""), entry("odd", "incorrect", "first"), entry("odd", "incorrect", "second"),
        entry("odd", "crashed", "signal 11"),
    ]  # fmt: skip
    archive = SimpleNamespace(run_entries=lambda run_id, as_judged: entries, close=lambda: None)
    monkeypatch.setattr(inner_loop, "Archive", lambda path: archive)
    assert inner_loop.list_failures(tmp_path, "run") == [
        {"candidate": "odd", "status": "incorrect", "count": 2, "reason": "first"},
        {"candidate": "odd", "status": "crashed", "count": 1, "reason": "signal 11"},
    ]


def test_the_page_has_both_rates_on_the_task_that_both_had(inner_loop: ModuleType) -> None:
    rows = [
        make_row(inner_loop, task, n, [])
        for task, n in (("other", 500), (Path(inner_loop.KERNELBENCH_TASK).stem, 30))
    ]
    theirs = {
        "seconds_per_candidate": 40.0,
        "answers": ["compiled=True correctness=True", "compiled=False correctness=False"],
    }
    runs, kernelbench = inner_loop.split_rows([{"kernelbench": theirs}, *rows])
    assert (runs, kernelbench) == (rows, theirs)
    page = inner_loop.make_page(runs, kernelbench)
    assert "takes 1.5 candidates a minute (median of 2, 1 of them correct)" in page
    assert "here: 60.0 screened a minute, 6.0 judged a minute." in page
    assert "here: none." in inner_loop.make_page(rows[:1], theirs)


def with_speedups(row: dict[str, object], status: str, *speedups: float) -> dict[str, object]:
    ratios = [
        {"baseline": f"b{i}", "median": s, "low": 0.95 * s, "high": 1.05 * s} for i, s in enumerate(speedups)
    ]
    best = {
        "label": "one", "candidate_id": "c", "labels": [], "speedup": ratios[0], "speedup_eager": ratios[0], "median_us": 10.0,
        "limit_share": 0.5, "confirmed": True, "ratios": ratios,
    }  # fmt: skip
    summary = {**row["summary"], "status": status, "best": best}  # type: ignore[dict-item]
    return {**row, "summary": summary}


def test_searches_are_compared_with_published_rows(inner_loop: ModuleType, tmp_path: Path) -> None:
    pages = importlib.import_module("inner_loop_pages")
    rows = [
        with_speedups(make_row(inner_loop, "1_A", 30, []), "win", 2.0, 4.0),
        with_speedups(make_row(inner_loop, "2_B", 30, []), "win", 1.8),
        make_row(inner_loop, "3_C", 30, []),
        make_row(inner_loop, "not published", 30, []),
    ]
    published = tmp_path / "rows.jsonl"
    published.write_text("".join(
        json.dumps({"file": f"{name}.py", "overrides": overrides, "ratios": ratios, "machine": "its machine"}) + "\n"
        for name, overrides, ratios in (
            ("1_A", {}, {"eager": [3.0, 2.9, 3.1], "compile": [1.0, 0.9, 1.1]}), ("2_B", {}, {"eager": [2.0, 1.9, 2.1]}),
            ("3_C", {}, {}), ("4_D", {"N": 4}, {"eager": [9.0, 9.0, 9.0]}),
        )
    ) + json.dumps({"file": "5_E.py", "status": "not judged"}) + "\n")  # fmt: skip
    known = pages.read_published(published)
    assert set(known) == {"1_A", "2_B", "3_C"}
    page = inner_loop.make_page(rows, None, known)
    assert (
        "3 tasks beside their published rows (its machine), over the best baseline each: geometric mean 1.53, published 1.26."
        in page
    )
    assert "1 improve, 1 are below 0.97 of their row: 2_B." in page
    assert "| 1_A | 2.00 | 1.00 | 2.00 |" in page
    assert "No task has a published row." in inner_loop.make_page(rows[3:], None, known)


@pytest.mark.parametrize(
    ("runs", "told"),
    [
        ([("win", 2.0), ("win", 2.05)], "| a | 2 win | 2.00, 2.05 | 1.02 | yes |"),
        ([("win", 2.0), ("win", 2.2)], "| a | 2 win | 2.00, 2.20 | 1.10 | no |"),
        ([("win", 2.0), ("no-win", 2.0)], "| a | 1 win, 1 no-win | 2.00, 2.00 | 1.00 | no |"),
    ],
)
def test_runs_of_one_task_agree_or_not(
    inner_loop: ModuleType, runs: list[tuple[str, float]], told: str
) -> None:
    rows = [with_speedups(make_row(inner_loop, "a", 30, []), status, speedup) for status, speedup in runs]
    assert told in inner_loop.make_page(rows)
    assert "largest over smallest" not in inner_loop.make_page(rows[:1])


@pytest.mark.parametrize(
    ("arguments", "files", "line"),
    [
        (["layernorm_last", "--published", "none.jsonl"], [], "none.jsonl is no file: name the rows of a campaign"),
        (["no_such_task"], [], "no_such_task is neither a file nor a task of a suite"),
        ([], [], "name a task, or a checkout"),
        (["--against", "."], [], "--against needs --device cuda"),
        (["--against", ".", "--device", "cuda"], [], "is no checkout of KernelBench: it has no KernelBench/level1/12_"),
        (["--against", ".", "--device", "cuda"], ["TASK"], "is no checkout of KernelBench: it has no src/kernelbench/eval.py"),
        (["--against", ".", "--device", "cuda"], ["TASK", "EVALUATION"], "needs an NVIDIA GPU, and there is none here"),
    ],
)  # fmt: skip
def test_what_is_missing_is_said_in_one_line(
    inner_loop: ModuleType, arguments: list[str], files: list[str], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    against = importlib.import_module("against_kernelbench")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(against.machine, "gpu", lambda: None)
    for name in files:
        file = tmp_path / getattr(against, name)
        file.parent.mkdir(parents=True)
        file.touch()
    monkeypatch.setattr(sys, "argv", ["inner_loop.py", "--out", "out", *arguments])
    with pytest.raises(SystemExit) as ended:
        inner_loop.main()
    assert line in str(ended.value)
    assert "\n" not in str(ended.value)


def test_tasks_of_every_suite_are_named(inner_loop: ModuleType) -> None:
    for name, suite in (("softmax_middle", "core"), ("swiglu_decode_bf16", "serving")):
        assert inner_loop.find_task(name).parent.name == suite


def test_kernelbench_is_measured_in_a_process_of_its_own(
    inner_loop: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkout whose evaluation says where it ran, instead of one on a GPU."""
    task, module = tmp_path / inner_loop.KERNELBENCH_TASK, tmp_path / "src/kernelbench/eval.py"
    for file, text in ((task, "reference"), (module, EVALUATION)):
        file.parent.mkdir(parents=True)
        file.write_text(text)
    row = inner_loop.measure_kernelbench(tmp_path, 2)
    assert len(row["answers"]) == 2
    assert all(answer.startswith("reference scale_rows") for answer in row["answers"])
    assert str(os.getpid()) not in " ".join(row["answers"])
    module.write_text("import no_such_module")
    with pytest.raises(SystemExit, match="cannot be imported: No module named 'no_such_module'"):
        inner_loop.measure_kernelbench(tmp_path, 1)

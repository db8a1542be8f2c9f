"""`suite` and `compare` as commands: what they pass on, which files they leave, and how they end."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from warpsmith import api
from warpsmith.cli.run import optimize
from warpsmith.cli.search_flags import SearchFlags
from warpsmith.cli.suite import suite
from warpsmith.config import Config
from warpsmith.errors import ArchiveError
from warpsmith.records import Best, Budget, Ratio, RunSummary


def summary(task: str = "softmax", speedup: float = 1.5, **changes: Any) -> RunSummary:
    over = Ratio(baseline="compile", median=speedup, low=speedup * 0.97, high=speedup * 1.03)
    best = Best(
        label="two-pass", candidate_id="c" * 16, labels=("kernel", "general"), median_us=812.0, limit_share=0.61,
        speedup=over, confirmed=True, speedup_eager=over.model_copy(update={"baseline": "eager"}),
    )  # fmt: skip
    fields: dict[str, Any] = {
        "run_id": f"run{task}", "task": task, "target": "cpu", "status": "win", "best": best, "evaluations": 14,
        "seconds": 61.0, "hardware": "Test CPU", "threads": 2, "stages": {"ok": 14},
    }  # fmt: skip
    return RunSummary(**(fields | changes))


def suite_of(*outcomes: RunSummary | BaseException) -> Callable[..., list[RunSummary]]:
    """Stands for `run_suite`: tells each summary as it comes, raises what is no summary."""

    def run(name: str, finished: Callable[[RunSummary, int], None], **_: Any) -> list[RunSummary]:
        done: list[RunSummary] = []
        for number, outcome in enumerate(outcomes, 1):
            if isinstance(outcome, BaseException):
                raise outcome
            done.append(outcome)
            finished(outcome, len(outcomes) - number)
        return done

    return run


def test_every_output_has_the_format_of_its_name(
    command: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(api, "run_suite", suite_of(summary("a"), summary("b", 3.0)))
    code, out, err = command(
        "suite", "core", "--out", "t.md", "--out", "t.html", "--out", "t.csv", "--json", "t.out", "--quiet"
    )
    assert code == 0
    assert (tmp_path / "t.md").read_text().startswith("# Suite core")
    assert (tmp_path / "t.html").read_text().startswith("<!doctype html>")
    assert (tmp_path / "t.csv").read_text().startswith("task,target,sample")
    assert json.loads((tmp_path / "t.out").read_text())["totals"]["wins"] == 2
    assert err.count("wrote ") == 4
    for told in ("2 of 2 tasks won", "fast_p", "speedup@k", "1.50× [1.46, 1.54]", "runb", "Test CPU"):
        assert told in out


def test_json_to_standard_output_is_only_json(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "run_suite", suite_of(summary("a")))
    code, out, _ = command("suite", "core", "--json", "-", "--quiet")
    assert code == 0
    assert [t["task"] for t in json.loads(out)["tasks"]] == ["a"]


@pytest.mark.parametrize(("ending", "code"), [(ArchiveError("disk full"), 4), (KeyboardInterrupt(), 130)])
def test_a_suite_that_ends_early_leaves_what_it_has(
    ending: BaseException, code: int, command: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(api, "run_suite", suite_of(summary("a"), ending, summary("c")))
    found, out, _ = command("suite", "core", "--out", "t.md", "--json", "t.json", "--quiet")
    assert found == code
    assert "2 runs still to come" in out
    assert "2 runs still to come" in (tmp_path / "t.md").read_text()
    assert json.loads((tmp_path / "t.json").read_text())["left"] == 2


def test_a_file_that_cannot_be_written_is_refused_before_the_work(
    command: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(api, "run_suite", lambda *_, **__: pytest.fail("no task may be begun"))
    assert command("suite", "core", "--out", "t.md", "--out", str(tmp_path))[0] == 2


def test_samples_and_flags_are_passed_on(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}
    monkeypatch.setattr(api, "run_suite", lambda name, **fields: seen.update(fields) or [summary()])
    flags = ("--samples", "5", "--seed", "3", "--limit", "2", "--budget", "9", "--lanes", "4")
    assert command("suite", "core", *flags)[0] == 0
    assert (seen["samples"], seen["seed"], seen["limit"], seen["lanes"]) == (5, 3, 2, 4)
    assert seen["budget"] == Budget(evaluations=9, seconds=120.0)


@pytest.mark.parametrize(
    "flags", [("--lanes", "0"), ("--lanes", "-1"), ("--lanes", "2"), ("--lanes", "many")]
)
def test_lanes_that_cannot_be_end_in_one_line(flags: tuple[str, ...], command: Any) -> None:
    code, out, err = command("suite", "core", *flags)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "lanes" in err


@pytest.mark.parametrize(
    ("flags", "seconds"),
    [
        ((), 120.0), (("--model", "expert"), 120.0), (("--model", "openai:m"), 900.0),
        (("--reasoner", "openai:m"), 900.0), (("--model", "openai:m", "--time", "30s"), 30.0),
        (("--model", "openai:m", "--time", "0"), None),
    ],
)  # fmt: skip
def test_models_get_more_time_unless_it_is_stated(
    flags: tuple[str, ...], seconds: float | None, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}
    monkeypatch.setattr(api, "optimize_task", lambda spec, **fields: seen.update(fields) or summary())
    assert command("optimize", "t.py", "--quiet", *flags)[0] == 0
    assert seen["budget"].seconds == seconds


def test_a_model_of_the_settings_counts_too() -> None:
    assert SearchFlags().limits(Config(checker="openai:m")).seconds == 900.0


def test_commands_that_search_share_their_options() -> None:
    shared = [set(inspect.signature(c).parameters) for c in (optimize, suite)]
    fields = set(SearchFlags.__dataclass_fields__)
    assert fields <= shared[0] & shared[1]
    assert "flags" not in shared[0] | shared[1]


# ---------------------------------------------------------------- compare


def test_two_suites_are_compared(command: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, speedup in (("a", 1.5), ("b", 3.0)):
        monkeypatch.setattr(api, "run_suite", suite_of(summary("x", speedup), summary("y", 2.0)))
        assert command("suite", "core", "--json", f"{name}.json", "--quiet")[0] == 0
    code, out, _ = command("compare", "a.json", "b.json", "--out", "t.md", "--json", "t.json")
    assert code == 0
    assert "B surely faster on 1, A on 0, not sure on 1" in out
    assert "B surely faster on 1" in (tmp_path / "t.md").read_text()
    data = json.loads((tmp_path / "t.json").read_text())
    assert [t["faster"] for t in data["tasks"]] == ["B", "not sure"]
    assert json.loads(command("compare", "b.json", "a.json", "--json", "-")[1])["surely_a"] == 1


def test_outcomes_without_a_common_task_are_no_empty_table(command: Any, tmp_path: Path) -> None:
    for name, tasks in (("a", "vwxyz"), ("b", "k")):
        rows = [summary(t).model_dump(mode="json") for t in tasks]
        (tmp_path / f"{name}.json").write_text(json.dumps(rows))
    code, out, err = command("compare", "a.json", "b.json", "--json", "-")
    assert (code, out) == (2, "")
    said = "no task is in both for one target: a.json has v, w, x and 2 more; b.json has k"
    assert err == f"warpsmith: {said}\n"


def test_what_cannot_be_compared_ends_in_one_line(command: Any) -> None:
    code, out, err = command("compare", "no.json", "other.json")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1

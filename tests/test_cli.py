"""The command line as a face: how options are read, what is printed where, and how every ending is told."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from warpsmith import api
from warpsmith.cli import options, printing, run
from warpsmith.cli.main import BUG, CLICK_ERROR, app, ending
from warpsmith.errors import ArchiveError, JudgeError, TaskError, ToolchainError, UsageError, WarpsmithError
from warpsmith.progress import PlainObserver, RichObserver, closing_line, duration
from warpsmith.records import Best, Budget, Ratio, RunSummary


def summary(status: str = "win", task: str = "softmax", **changes: Any) -> RunSummary:
    best = Best(
        label="two-pass", candidate_id="c" * 16, labels=("kernel", "general"), median_us=812.0,
        limit_share=0.61,
        speedup=Ratio(baseline="compile", median=1.52, low=1.47, high=1.58), confirmed=True,
        speedup_eager=Ratio(baseline="eager", median=2.31, low=2.2, high=2.4),
    )  # fmt: skip
    fields: dict[str, Any] = {
        "run_id": "3f2a00", "task": task, "target": "cpu", "status": status, "best": best, "evaluations": 14,
        "stages": {"ok": 12, "incorrect": 2}, "seconds": 61.0, "hardware": "Test CPU, 2 threads",
        "baselines": {"eager": 1876.0, "compile": 1234.0},
    }  # fmt: skip
    return RunSummary(**(fields | changes))


class Calls(list[dict[str, Any]]):
    """Stands for `optimize_task`: notes how it was called and hands back prepared summaries."""

    def __init__(self, *answers: RunSummary | BaseException) -> None:
        super().__init__()
        self.answers = list(answers)

    def __call__(self, spec: str, **fields: Any) -> RunSummary:
        self.append({"spec": spec, **fields})
        answer = self.answers[min(len(self), len(self.answers)) - 1]
        if isinstance(answer, BaseException):
            raise answer
        fields["observer"].stage(f"loading {spec}")
        fields["observer"].finish(answer)
        return answer


# ---------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("text", "expected"),
    [("90", 90.0), ("120s", 120.0), ("2m", 120.0), ("1.5h", 5400.0), ("0", None), ("5min", 300.0)],
)
def test_time_is_read(text: str, expected: float | None) -> None:
    assert options.seconds(text) == expected


@given(st.text(max_size=8).filter(lambda t: not t.strip()[:1].isdigit()))
def test_time_that_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        options.seconds(text)


def test_a_budget_without_an_end_is_refused() -> None:
    assert options.budget(0, "10s") == Budget(evaluations=None, seconds=10.0)
    assert options.budget(5, "0") == Budget(evaluations=5, seconds=None)
    with pytest.raises(UsageError, match="never end"):
        options.budget(0, "0")
    with pytest.raises(UsageError):
        options.budget(-1, "10s")


@pytest.mark.parametrize(
    "arguments",
    [
        ("optimize", "t.py", "--seed", "-5"), ("optimize", "t.py", "--seed", str(2**64)),
        ("suite", "core", "--seed", "-5"), ("suite", "core", "--samples", "0"), ("judge", "a.py", "--seed", "-1"),
        ("demo", "--seed", "-1"), ("archive", "dataset", "out", "--license", "MIT", "--seed", "-1"),
        ("optimize", "t.py", "--budget", str(2**64)), ("optimize", "t.py", "--tokens", "-1"),
        ("optimize", "t.py", "--usd", "-0.5"), ("archive", "find", "x", "--most", str(2**64)),
        ("archive", "list", "--most", "0"), ("mcp", "--http", "70000"), ("knowledge", "x", "-n", "0"),
    ],
)  # fmt: skip
def test_a_number_out_of_range_is_refused_in_one_line(command: Any, arguments: tuple[str, ...]) -> None:
    code, out, err = command(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("warpsmith: ")
    assert err.count("\n") == 1
    assert arguments[-2] in err


@given(
    st.dictionaries(
        st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True),
        st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    )
)
def test_overrides_round_trip(values: dict[str, float]) -> None:
    assert (options.overrides([f"{k}={v!r}" for k, v in values.items()]) or {}) == values


def test_overrides_fall_back_to_text_and_refuse_what_is_no_setting() -> None:
    assert options.overrides(["mode=mean", "shape=(2, 3)", "flag=True"]) == {
        "mode": "mean",
        "shape": (2, 3),
        "flag": True,
    }
    for bad in ("dim", "=3", "2x=1"):
        with pytest.raises(UsageError, match="NAME=VALUE"):
            options.overrides([bad])


def test_unknown_baseline_is_refused() -> None:
    assert options.config(None, "eager, compile").baselines == ("eager", "compile")
    with pytest.raises(UsageError, match="jit"):
        options.config(None, "eager,jit")


# ---------------------------------------------------------------- commands


def test_optimize_passes_everything_on(command: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls = Calls(summary())
    monkeypatch.setattr(api, "optimize_task", calls)
    code, out, _ = command(
        "optimize", "t.py", "--budget", "7", "--time", "1m", "--seed", "3", "--set", "dim=5",
        "--baselines", "eager", "--archive", "other.db",
    )  # fmt: skip
    call = calls[0]
    assert code == 0
    assert (call["spec"], call["seed"], call["overrides"]) == ("t.py", 3, {"dim": 5})
    assert call["budget"] == Budget(evaluations=7, seconds=60.0)
    assert call["config"].baselines == ("eager",)
    assert call["config"].archive == Path("other.db")
    for fact in (
        "1.52x [1.47, 1.58] over compile",
        "2.31x [2.20, 2.40] over eager",
        "61%",
        "Test CPU",
        "12 ok",
    ):
        assert fact in out


def test_optimize_passes_the_models_and_their_limits_on(
    command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Calls(summary())
    monkeypatch.setattr(api, "optimize_task", calls)
    players = {"model": "openai:a", "reasoner": "openai:b", "synthesizer": "c:d,e:f", "mender": "expert",
               "checker": "g:h", "orchestrator": "i:j", "base_url": "http://localhost:1/v1"}  # fmt: skip
    flags = [part for name, value in players.items() for part in (f"--{name.replace('_', '-')}", value)]
    code, _, _ = command("optimize", "t.py", *flags, "--usd", "0.5", "--tokens", "9000", "--replay", "abc")
    assert code == 0
    assert {name: getattr(calls[0]["config"], name) for name in players} == players
    assert (calls[0]["budget"].usd, calls[0]["budget"].tokens, calls[0]["replay"]) == (0.5, 9000, "abc")


def test_suite_passes_the_models_and_their_limits_on(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}
    monkeypatch.setattr(api, "run_suite", lambda name, **fields: seen.update(fields) or [summary()])
    assert command("suite", "core", "--model", "openai:a", "--checker", "expert", "--tokens", "7")[0] == 0
    assert (seen["config"].model, seen["config"].checker, seen["budget"].tokens) == ("openai:a", "expert", 7)


def test_one_run_is_replayed_on_one_task(command: Any) -> None:
    code, _, err = command("optimize", "a.py", "b.py", "--replay", "abc")
    assert code == 2
    assert "--replay" in err


def test_json_to_standard_output_is_only_json(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "optimize_task", Calls(summary()))
    code, out, err = command("optimize", "t.py", "--json", "-")
    data = json.loads(out)
    assert code == 0
    assert {"task", "target", "status", "best", "evaluations", "stages", "seconds", "run_id"} <= set(data)
    assert data["best"]["speedup"] == {"baseline": "compile", "median": 1.52, "low": 1.47, "high": 1.58}
    assert data["best"]["speedup_eager"]["median"] == 2.31
    assert data["best"]["limit_share"] == 0.61
    assert "loading t.py" in err


def test_json_file_of_several_tasks_is_a_list(
    command: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(
        api, "optimize_task", Calls(summary(task="a"), summary("no-win", task="b", best=None))
    )
    code, out, _ = command("optimize", "a.py", "b.py", "--json", "deep/out.json", "--quiet")
    assert code == 0
    assert [s["task"] for s in json.loads((tmp_path / "deep/out.json").read_text())] == ["a", "b"]
    assert "no-win" in out


def test_what_was_finished_is_told_when_a_later_task_ends_in_an_error(
    command: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(api, "optimize_task", Calls(summary(task="a"), TaskError("b.py defines no Model")))
    code, out, err = command("optimize", "a.py", "b.py", "--json", "out.json", "--quiet")
    assert code == 2
    assert "1.52x [1.47, 1.58] over compile" in out
    assert "b.py defines no Model" in err
    assert [s["task"] for s in json.loads((tmp_path / "out.json").read_text())] == ["a"]


def test_a_failed_run_exits_non_zero_and_says_why(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        api, "optimize_task", Calls(summary("failed", best=None, reason="nothing was correct"))
    )
    code, out, _ = command("optimize", "t.py", "--quiet")
    assert code == 1
    assert "nothing was correct" in out


def test_json_that_cannot_be_written_is_refused_before_the_work(
    command: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls = Calls(summary())
    monkeypatch.setattr(api, "optimize_task", calls)
    code, _, err = command("optimize", "t.py", "--json", str(tmp_path))
    assert code == 2
    assert not calls
    assert err.count("\n") == 1


def test_suite_exits_zero_unless_nothing_was_valid(
    command: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    refused = summary("failed", task="b", best=None, reason="does not export", run_id="")
    monkeypatch.setattr(api, "run_suite", lambda name, **_: [summary(task="a"), refused])
    code, out, _ = command("suite", "core", "--out", "table.md")
    assert code == 0
    assert "does not export" in out
    assert "does not export" in (tmp_path / "table.md").read_text()
    monkeypatch.setattr(api, "run_suite", lambda name, **_: [refused])
    assert command("suite", "core")[0] == 1


def test_demo_needs_all_three_verified(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Calls(summary(), summary("no-win"), summary())
    monkeypatch.setattr(api, "optimize_task", calls)
    code, out, _ = command("demo")
    assert code == 0
    assert [Path(c["spec"]).name for c in calls] == list(run.DEMO_TASKS)
    assert "3 of 3 verified, 2 faster" in out
    monkeypatch.setattr(
        api, "optimize_task", Calls(summary(), summary("failed", best=None, reason="x"), summary())
    )
    assert command("demo")[0] == 1


def test_demo_without_examples_says_so(command: Any, tmp_path: Path) -> None:
    code, _, err = command("demo", str(tmp_path))
    assert code == 2
    assert "softmax.py" in err


def test_archive_commands_on_an_empty_archive(command: Any, tmp_path: Path) -> None:
    assert command("archive", "path")[1].strip() == str(tmp_path / "archive.db")
    assert command("archive", "list")[0] == 0
    assert json.loads(command("archive", "list", "--json", "-")[1]) == []
    for arguments in (("report",), ("export",), ("archive", "show"), ("report", "zzz")):
        code, _, err = command(*arguments)
        assert code == 4
        assert "no run" in err


def test_tasks_are_listed(command: Any) -> None:
    code, out, _ = command("tasks", "list", "core")
    assert code == 0
    assert "rmsnorm_last" in out
    assert len(json.loads(command("tasks", "list", "--json", "-")[1])) >= 18
    assert command("tasks", "list", "no_such_suite")[0] == 2


# ---------------------------------------------------------------- endings


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (TaskError("x.py defines no Model"), 2), (UsageError("no"), 2), (ToolchainError("no g++"), 3),
        (ArchiveError("damaged"), 4), (JudgeError("lost"), 5), (WarpsmithError("other"), 1),
        (KeyboardInterrupt(), 130), (typer.Abort(), 130), (typer.BadParameter("bad"), 2),
        (ZeroDivisionError("x"), BUG), (PermissionError(13, "Permission denied", "f"), 1),
        (OSError(28, "No space left on device", "g"), 1),
    ],
)  # fmt: skip
def test_every_ending_is_one_line(
    error: BaseException,
    code: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("WARPSMITH_CACHE", str(tmp_path))
    assert ending(error) == code
    err = capsys.readouterr().err
    assert err.startswith("warpsmith: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err


def test_click_errors_are_recognised() -> None:
    assert CLICK_ERROR.__name__ == "ClickException"


def test_without_a_command_the_help_is_shown_as_it_is_laid_out(command: Any) -> None:
    for arguments in ((), ("archive",)):
        code, out, err = command(*arguments)
        assert code == 2
        assert "\nCommands:\n" in err
        assert not err.startswith("warpsmith: ")
        assert out == ""


def test_messages_of_several_lines_become_one(capsys: pytest.CaptureFixture[str]) -> None:
    ending(TaskError("first\n  second"))
    assert capsys.readouterr().err == "warpsmith: first second\n"


def test_a_bug_leaves_its_traceback_in_a_file(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "optimize_task", Calls(ZeroDivisionError("the cause")))
    code, _, err = command("optimize", "t.py", "--quiet")
    assert code == BUG
    log = Path(err.strip().rpartition("details in ")[2])
    assert "ZeroDivisionError: the cause" in log.read_text()


def test_debug_shows_the_traceback(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "optimize_task", Calls(TaskError("bad task")))
    assert "Traceback" not in command("optimize", "t.py")[2]
    assert "Traceback" in command("optimize", "t.py", "--debug")[2]


def test_a_reader_that_goes_away_is_no_bug() -> None:
    program = [sys.executable, "-c", "from warpsmith.cli import main; main()", "tasks", "list"]
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as gone:
        done = subprocess.run(
            program, stdout=gone, stderr=subprocess.PIPE, text=True, check=False, timeout=60
        )
    assert done.returncode == 141
    assert done.stderr == ""


def test_help_of_every_command() -> None:
    from typer.testing import CliRunner

    for arguments in (
        [],
        ["optimize"],
        ["suite"],
        ["demo"],
        ["judge"],
        ["report"],
        ["export"],
        ["archive"],
        ["tasks"],
    ):
        result = CliRunner().invoke(app, [*arguments, "--help"])
        assert result.exit_code == 0
        assert "Usage: warpsmith" in result.output or "Usage: root" in result.output


# ---------------------------------------------------------------- progress and printing


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_plain_lines_are_rate_limited_but_a_new_best_is_not() -> None:
    stream, clock = io.StringIO(), Clock()
    observer = PlainObserver(stream, clock)
    observer.stage("loading")
    observer.stage("loading")
    for done in range(1, 11):
        clock.now += 0.1
        observer.evaluated(done, 60, "ok", "1.10x compile" if done >= 6 else "", 50.0)
    lines = stream.getvalue().splitlines()
    assert lines == [
        "loading", "judged 1/60: ok, nothing faster yet, 50s left",
        "judged 6/60: ok, best 1.10x compile, 50s left",
    ]  # fmt: skip


def test_live_line_shows_the_best_and_ends() -> None:
    stream = io.StringIO()
    with RichObserver(Console(file=stream, force_terminal=True, width=120)) as observer:
        observer.stage("timing [baselines]")
        observer.evaluated(3, 60, "ok", "1.23x compile", 42.0)
        observer.note("[1/3] softmax")
        observer.finish(summary())
        observer.stage("next")
    text = stream.getvalue()
    for part in (
        "timing [baselines]",
        "3/60 judged",
        "1.23x compile",
        "left",
        "[1/3] softmax",
        "1.52x [1.47, 1.58] over compile",
    ):
        assert part in text


def test_closing_line_and_durations() -> None:
    assert closing_line(summary("failed", best=None, reason="no compiler")) == "softmax: failed: no compiler"
    assert "[1.47, 1.58]" in closing_line(summary())
    assert (duration(45.2), duration(150), duration(119.9)) == ("45s", "2m 30s", "2m 00s")


def test_quarantined_task_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    printing.print_summary(summary(admitted=False))
    assert "not admitted" in capsys.readouterr().out


def test_a_win_over_a_slow_baseline_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    printing.print_summary(summary(limit_us=500.0))
    assert "reaches only" not in capsys.readouterr().out
    printing.print_summary(summary(limit_us=10.0))
    assert "The best baseline reaches only 0.81% of the machine's limit" in capsys.readouterr().out


def test_a_run_that_was_too_busy_to_tell_says_so_and_prints_no_median(
    capsys: pytest.CaptureFixture[str],
) -> None:
    over = Ratio(baseline="eager", median=3.33, low=0.0, high=9.0)
    best = summary().best
    assert best is not None
    busy = summary("too-busy", reason="the machine was too busy to confirm anything: a process waited")
    busy = busy.model_copy(update={"best": best.model_copy(update={"speedup": over, "speedup_eager": over})})
    printing.print_summary(busy)
    printing.print_table([busy, summary()])
    told = capsys.readouterr().out
    assert told.startswith(
        "softmax: too-busy (the machine was too busy to confirm anything: a process waited)\n"
    )
    assert "  unknown (too noisy: 0.00 to 9.00) over eager, the best baseline\n" in told
    assert told.count("run the same command again when the machine is quiet") == 2
    assert "3.33" not in told + closing_line(busy)
    assert closing_line(busy).startswith("softmax: too-busy: unknown (too noisy: 0.00 to 9.00) over eager, ")

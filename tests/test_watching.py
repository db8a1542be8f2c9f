"""Who is told of a search that was started from Python."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from warpsmith import Config, api
from warpsmith.agents.base import Attempt
from warpsmith.pipeline import run as run_module
from warpsmith.progress import PlainObserver, RichObserver, SilentObserver
from warpsmith.records import Budget, Candidate, Ratio, RunSummary
from warpsmith.search.meter import Meter
from warpsmith.testing import chain_candidate, scripted_result
from warpsmith.watching import NotebookObserver, choose_observer, watching

SUMMARY = RunSummary(run_id="r", task="softmax", target="cpu", status="failed", reason="no compiler")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Kernel:
    """IPython as a notebook's kernel has it; what was shown, in order."""

    def __init__(self, kernel: bool) -> None:
        self.shown: list[tuple[str, str]] = []  # "new" or "again", and the text
        shell = SimpleNamespace(kernel=object()) if kernel else SimpleNamespace()
        self.module, self.display_module = ModuleType("IPython"), ModuleType("IPython.display")
        self.module.get_ipython = lambda: shell  # type: ignore[attr-defined]
        self.display_module.display = self.display  # type: ignore[attr-defined]

    def display(self, data: dict[str, str], raw: bool, display_id: bool = False) -> Any:
        self.shown.append(("new", data["text/plain"]))
        return SimpleNamespace(update=self.update)

    def update(self, data: dict[str, str], raw: bool) -> None:
        self.shown.append(("again", data["text/plain"]))

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "IPython", self.module)
        monkeypatch.setitem(sys.modules, "IPython.display", self.display_module)


@pytest.mark.parametrize(
    ("terminal", "progress", "kind"),
    [
        (True, None, RichObserver),
        (True, True, RichObserver),
        (True, False, SilentObserver),
        (False, None, SilentObserver),
        (False, True, PlainObserver),
        (False, False, SilentObserver),
    ],
)
def test_a_terminal_is_told_and_a_pipe_only_when_asked_for(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, progress: bool | None, kind: type
) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal() if terminal else io.StringIO())
    monkeypatch.setenv("TERM", "xterm")
    assert type(choose_observer(progress)) is kind


def test_a_pipe_is_not_told_though_colours_are_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    """As continuous integration does it."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert type(choose_observer(None)) is SilentObserver


def test_a_process_without_standard_error_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert type(choose_observer(None)) is SilentObserver


@pytest.mark.parametrize(
    ("kernel", "progress", "kind"),
    [
        (True, None, NotebookObserver),
        (True, True, NotebookObserver),
        (True, False, SilentObserver),
        (False, None, SilentObserver),  # IPython in a pipe
    ],
)
def test_a_notebook_is_told(
    monkeypatch: pytest.MonkeyPatch, kernel: bool, progress: bool | None, kind: type
) -> None:
    Kernel(kernel).install(monkeypatch)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert type(choose_observer(progress)) is kind


def test_a_notebook_has_one_line_that_is_written_anew() -> None:
    kernel, now = Kernel(True), [0.0]
    observer = NotebookObserver(kernel.display, lambda: now[0])
    observer.stage("searching")
    observer.evaluated(3, None, "ok", "1.52x eager [1.48, 1.56]", 42.0)
    now[0] = 2.0
    observer.stage("confirming")
    observer.note("softmax is quarantined")
    observer.finish(SUMMARY)
    observer.stage("loading the next")
    assert kernel.shown == [
        ("new", "searching"),
        ("again", "searching · 3 judged · best 1.52x eager [1.48, 1.56] · 42s left"),
        ("again", "confirming · 3 judged · best 1.52x eager [1.48, 1.56] · 40s left"),
        ("new", "softmax is quarantined"),
        ("again", "softmax: failed: no compiler"),
        ("new", "loading the next"),
    ]


def test_the_callers_own_observer_wins_and_stays_open() -> None:
    class Own(SilentObserver):
        def __exit__(self, *_: object) -> None:
            raise AssertionError("it is the caller's to close")

    own = Own()
    with watching(own, progress=True) as observer:
        assert observer is own


def test_the_live_line_is_closed_when_a_search_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    told: list[Any] = []

    def search() -> None:
        with watching(None, None) as observer:
            told.append(observer)
            observer.stage("searching")
            assert told[0]._progress is not None
            raise ValueError("lost")

    with pytest.raises(ValueError, match="lost"):
        search()
    assert isinstance(told[0], RichObserver)
    assert told[0]._progress is None


@pytest.mark.parametrize(("progress", "told"), [(None, ""), (False, ""), (True, "loading task.py")])
def test_a_search_of_a_task_in_a_pipe(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, progress: bool | None, told: str
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(
        api, "Run", lambda *_, **__: SimpleNamespace(play=lambda: SimpleNamespace(summary=None))
    )
    monkeypatch.setattr(api, "_load", lambda *_: None)
    monkeypatch.setattr(api, "make_target", lambda *_: None)
    config = Config(archive=tmp_path / "archive.db", cache=tmp_path)
    api.optimize_task("task.py", config=config, progress=progress)
    assert stream.getvalue().strip() == told


def test_a_module_is_searched_where_somebody_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Up to where the module is exported."""
    stages = []

    class Told(SilentObserver):
        def stage(self, text: str) -> None:
            stages.append(text)
            raise KeyboardInterrupt

    monkeypatch.setattr(api, "make_target", lambda *_: None)
    config = Config(archive=tmp_path / "archive.db", cache=tmp_path)
    with pytest.raises(KeyboardInterrupt):
        api.optimize(abs, [1.0], config=config, observer=Told())
    assert stages == ["exporting the module"]


def test_the_best_so_far_is_the_one_with_the_highest_low_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def judged(technique: str, low: float, median: float) -> Attempt:
        candidate: Candidate = chain_candidate(technique)
        result = scripted_result(candidate, median)
        assert result.timing is not None
        ratio = Ratio(baseline="eager", median=median, low=low, high=1.8 * median)
        timing = result.timing.model_copy(update={"ratios": (ratio,)})
        return Attempt(candidate, result.model_copy(update={"timing": timing}))

    texts: list[str] = []

    class Told(SilentObserver):
        def evaluated(self, *given: Any) -> None:
            texts.append(given[3])

    archive = SimpleNamespace(add_result=lambda *_, **__: None)
    run = run_module.Run(None, None, Budget(), None, archive, Told(), None)  # type: ignore[arg-type]
    steady, lucky = judged("steady", 1.4, 1.5), judged("lucky", 0.8, 3.0)
    search = SimpleNamespace(known={}, attempts=[steady, lucky], meter=Meter(Budget()))
    run._keep("run", search, lucky, None)  # type: ignore[arg-type]
    assert texts == ["1.50x [1.40, 2.70] over eager, 15% of the limit"]

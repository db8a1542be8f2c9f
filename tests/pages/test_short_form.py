"""The short form in notebooks: the numbers with their intervals as text, a style of its own, and nothing that runs."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from warpsmith.composition.parity import Parity
from warpsmith.pages.short_form import MAX_LINES, render_result, render_short, render_summary
from warpsmith.progress import SilentObserver
from warpsmith.records import Best, Ratio, Result, RunSummary
from warpsmith.report.suite import SuiteSummaries
from warpsmith.runtime.module import OptimizedModule
from warpsmith.tasks.memory import export_module
from warpsmith.testing import chain_candidate, scripted_result
from warpsmith.watching import watching
from warpsmith.whole_model.result import OptimizedModel, ReplacedLayers

EVIL = "</style><script>alert(1)</script><img src=x onerror=alert(1)>"
OVER = Ratio(baseline="compile", median=1.24, low=1.2, high=1.27)


class Fragment(HTMLParser):
    """Its tags, its text, and what would run or load."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text, self.faults = "", []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.faults += [
            f"{tag} {name}" for name, _ in attrs if name.startswith("on") or name in ("src", "href")
        ]
        self.faults += [tag for _ in range(tag in ("script", "img", "link", "iframe"))]

    def handle_data(self, data: str) -> None:
        self.text += data


def make_summary(task: str = "softmax", best: Ratio | None = OVER, **changes: Any) -> RunSummary:
    claimed = Best(
        label="two-pass", candidate_id="c", labels=("kernel",), speedup=best, speedup_eager=best.model_copy(update={"baseline": "eager"}),
        median_us=100, limit_share=0.86, confirmed=True,
    ) if best is not None else None  # fmt: skip
    fields = {
        "run_id": "r1",
        "task": task,
        "target": "cpu",
        "status": "win" if best else "failed",
        "best": claimed,
        "evaluations": 9,
    }
    return RunSummary(**(fields | changes))


def test_a_summary_has_its_claim_with_interval_baseline_and_how_to_see_all() -> None:
    shown = Fragment(render_summary(make_summary()))
    for words in ("softmax", "1.24× [1.20, 1.27] over torch.compile", "86% of the machine's limit", "confirmed in fresh processes",
                  "over PyTorch eager", "warpsmith report r1 --format html --out report.html"):  # fmt: skip
        assert words in shown.text, words
    assert shown.tags.count("svg") >= 2


def test_a_failed_and_an_unknown_summary_name_no_speedup() -> None:
    assert "nothing faster was found" in render_summary(make_summary(best=None, reason="no compiler"))
    noisy = Ratio(baseline="compile", median=7.77, low=0.0, high=14.0)
    shown = render_summary(make_summary(best=noisy, status="too-busy"))
    assert "7.77" not in shown
    assert "unknown (too noisy" in shown


def test_its_style_holds_for_itself_alone() -> None:
    text = render_summary(make_summary())
    style = text[text.index("<style>") + 7 : text.index("</style>")].strip()
    assert style.startswith(".warpsmith {")
    depth, ends = 0, []
    for match in re.finditer(r"[{}]", style):
        depth += 1 if match[0] == "{" else -1
        ends += [match.end()] if depth == 0 else []
    assert ends == [len(style)], "all rules stand inside of the one for the fragment"


def test_hostile_text_is_text_in_every_short_form() -> None:
    summary = make_summary(EVIL, reason=EVIL, hardware=EVIL, left=(EVIL,))
    candidate = chain_candidate("bad", "x")
    failed = scripted_result(candidate, "incorrect", "e").model_copy(update={"reason": EVIL})
    model = OptimizedModel(
        torch.nn.ReLU(),
        (ReplacedLayers(name=EVIL, paths=(), speedup=OVER, reason=EVIL),),
        1.0,
        None,
        None,
        None,
    )  # type: ignore[arg-type]
    for text in (
        render_summary(summary), render_result(failed), render_short(EVIL, EVIL, [EVIL]), SuiteSummaries([summary])._repr_html_(), model._repr_html_(),
    ):  # fmt: skip
        shown = Fragment(text)
        assert shown.faults == []
        assert "alert(1)" in shown.text


def test_many_lines_and_many_tasks_stay_small() -> None:
    assert f"{900 - MAX_LINES} more lines" in render_short("a", "b", ["line"] * 900)
    suite = SuiteSummaries([make_summary(f"task {n}") for n in range(300)])
    assert len(suite._repr_html_()) < 150_000
    assert "300 win" in Fragment(suite._repr_html_()).text
    assert isinstance(suite, list)


def test_a_judged_kernel_shows_checks_and_speedups() -> None:
    candidate = chain_candidate("good", "x")
    text = Fragment(render_result(scripted_result(candidate, 2.0, "e"))).text
    assert "ok" in text
    assert re.search(r"2\.00× \[[\d.]+, [\d.]+\] over", text)
    assert "passed" in text


def test_a_composed_model_shows_its_regions() -> None:
    layers = ReplacedLayers(
        name="2 linear", paths=("a", "b"), speedup=OVER, predicted_gain=1.1, in_model=True
    )
    parity = Parity.model_construct(error=0.1, oracle=True)
    model = OptimizedModel(torch.nn.ReLU(), (layers,), 1.1, OVER, parity, None)  # type: ignore[arg-type]
    text = Fragment(model._repr_html_()).text
    assert "1.24x [1.20, 1.27] over the original" in text
    assert "2 linear" in text


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> dict[type, Any]:
    """What a notebook's formatter was told, by type."""
    told: dict[type, Any] = {}
    html = SimpleNamespace(for_type=told.__setitem__)
    fake = SimpleNamespace(kernel=object(), display_formatter=SimpleNamespace(formatters={"text/html": html}))
    module = ModuleType("IPython")
    module.get_ipython = lambda: fake  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", module)
    return told


def test_a_notebook_shows_summaries_and_results_in_short(shell: dict[type, Any]) -> None:
    with watching(SilentObserver(), None):
        pass
    assert set(shell) == {RunSummary, Result}
    assert "1.24×" in shell[RunSummary](make_summary())


def test_an_optimized_module_shows_its_search_and_its_calls(tmp_path: Path) -> None:
    module, x = torch.nn.Sequential(torch.nn.ReLU()), torch.ones(3)
    graph = export_module(module, (x,), {}, tmp_path).task.graph
    with torch.no_grad():
        fast = OptimizedModule(module, graph, [], make_summary(), rewritten=graph)
        fast(x)
        fast(torch.ones(4))
    text = Fragment(fast._repr_html_()).text
    assert "1.24× [1.20, 1.27] over torch.compile" in text
    assert "1 call by the kernels, 1 by the original" in text
    assert "not torch.float32[3]" in text
    idle = OptimizedModule(module, graph, [], None)
    assert "the original runs" in Fragment(idle._repr_html_()).text

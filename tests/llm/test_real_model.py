"""Real weights answer: the client reads what llama.cpp's server says, and a run survives what a hopeless model says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from real_model import RealServer, missing, serving

from warpsmith.archive.store import Archive
from warpsmith.errors import ModelError
from warpsmith.llm.chat import PASSING
from warpsmith.records import RunSummary
from warpsmith.report.build import build_report
from warpsmith.report.markdown import render_markdown

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing() or "all is there")]

SOFTMAX = Path(__file__).parents[2] / "examples" / "softmax.py"
MODEL = "openai:smollm2"
CONTEXT = 6144  # tokens; the longest question of the run below has about 2,500
LONGEST = 96  # tokens of an answer of that run


@pytest.fixture(scope="module")
def server() -> Iterator[RealServer]:
    with serving(CONTEXT) as real:
        yield real


def at(server: RealServer, longest: int = 64, temperature: float = 0.0) -> dict[str, Any]:
    """Settings of a client of this server."""
    return {
        "model": MODEL, "base_url": server.base_url, "max_answer_tokens": longest, "temperature": temperature,
    }  # fmt: skip


def test_it_answers(asking: Callable[..., Any], server: RealServer) -> None:
    exchange = asking([], **at(server)).ask("Say hello.")
    assert exchange.error == ""
    assert exchange.answer.strip()
    assert 0 < exchange.usage.output_tokens <= 64
    assert 10 < exchange.usage.input_tokens < 100  # counted by its tokenizer, with the template around it


def test_an_answer_that_was_cut_off_is_told(asking: Callable[..., Any], server: RealServer) -> None:
    exchange = asking([], **at(server, longest=8)).ask("Count from one to one hundred.")
    assert exchange.error == "cut off after 8 tokens (setting max_answer_tokens)"
    assert exchange.answer.strip()


def test_a_question_that_is_too_long_costs_this_question_only(
    asking: Callable[..., Any], server: RealServer
) -> None:
    asked = asking([], **at(server))
    for turn in range(4):  # more than a dead endpoint is given
        exchange = asked.ask("word " * CONTEXT, turn)
        assert exchange.error.startswith("the question is too long for this model")
        assert f"({CONTEXT} tokens)" in exchange.error
    assert asked.ask("Say hello.").error == ""


def test_a_server_that_is_gone_is_given_up(asking: Callable[..., Any]) -> None:
    with serving(512) as mortal:
        asked = asking([], **at(mortal))
        assert asked.ask("Say hello.").error == ""
        mortal.stop()
        assert mortal.process.returncode == 0
        assert "cannot be reached" in asked.ask("Are you there?").error
        asked.ask("Are you there?", 1)
        with pytest.raises(ModelError, match="cannot be reached"):
            asked.ask("Are you there?", 2)


@pytest.fixture(scope="module")
def run(
    server: RealServer, tmp_path_factory: pytest.TempPathFactory, with_peaks: Callable[[Path], Path]
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """The command line with the model in every role but the reasoner's, which would never get to a kernel. Tokens end it,
    however fast the machine is: two answers, and what the orchestrator says to them.
    """
    folder = tmp_path_factory.mktemp("run")
    settings = at(server, LONGEST, temperature=0.8) | {
        "archive": folder / "archive.db", "cache": with_peaks(folder / "cache"), "price": "1/2", "knowledge": "false",
        "branches": 1, "variants": 1, "baselines": "eager", "reasoner": "expert",
    }  # fmt: skip
    environment = os.environ | {f"WARPSMITH_{k.upper()}": str(v) for k, v in settings.items()}
    command = [
        sys.executable, "-m", "warpsmith", "optimize", str(SOFTMAX), "--set", "batch_size=256", "--set", "dim=512",
        "--budget", "3", "--time", "200s", "--tokens", "4500", "--seed", "1", "--json", str(folder / "out.json"),
    ]  # fmt: skip
    return folder, subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=290, check=False
    )


@pytest.mark.alone  # where others take the cores, a question takes minutes
def test_a_run_survives_a_hopeless_model(run: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    folder, done = run
    told = done.stdout + done.stderr
    assert "Traceback" not in told
    summary = RunSummary.model_validate(json.loads((folder / "out.json").read_text()))
    entries = Archive(folder / "archive.db").run_entries(summary.run_id)
    correct = any(e.result.status == "ok" for e in entries)
    assert correct or summary.status == "failed", told
    assert done.returncode == int(summary.status == "failed"), told
    assert len(entries) == summary.evaluations <= 3
    if not entries:
        assert "no answer of a model could be judged" in summary.reason


@pytest.mark.alone  # where others take the cores, a question takes minutes
def test_the_report_shows_what_was_asked_and_its_cost(
    run: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    folder, _ = run
    archive = Archive(folder / "archive.db")
    summary = RunSummary.model_validate(json.loads((folder / "out.json").read_text()))
    kept = archive.exchanges(summary.run_id)
    assert len(kept) == summary.exchanges >= 1
    assert {e.model for e in kept} == {MODEL}
    got = [e for e in kept if not e.error.startswith(PASSING)]
    assert all(e.answer.strip() and 0 < e.usage.output_tokens <= LONGEST for e in got)
    report = build_report(archive, summary.run_id)
    assert len(report.exchanges) == len(kept)
    assert {r.role for r in report.exchanges} >= {"synthesis"}
    assert sum(r.input_tokens + r.output_tokens for r in report.exchanges) == summary.tokens
    assert sum(r.usd or 0 for r in report.exchanges) == pytest.approx(summary.usd)
    paid = sum(r.input_tokens + 2 * r.output_tokens for r in report.exchanges) / 1e6
    assert summary.usd == pytest.approx(paid)
    assert "What the language models were asked" in render_markdown(report)

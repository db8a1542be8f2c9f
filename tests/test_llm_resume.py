"""A run with models that is killed and resumed, or replayed from its record: the same result, and no question asked twice."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import scripted_run
from forks import Forks, forks_of
from scripted_run import answer, make_run, play, stubs

from warpsmith.archive.store import Archive
from warpsmith.errors import UsageError
from warpsmith.llm.scripted_server import Asked, Reply, ScriptedServer, failing
from warpsmith.records import RunSummary
from warpsmith.report.build import build_report
from warpsmith.report.text import render_text

EXCHANGES = 12  # of the whole run
IMPORTS = """
import torch, scripted_run, warpsmith.agents.llm.brain, genai_prices.data, openai.resources.chat
import pydantic_ai.models.openai, pydantic_ai.profiles.openai, pydantic_ai.providers.openai_compatible
"""  # what a run would import


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPSMITH_API_KEY", "sk-canary-of-the-tests")


def story(folder: Path) -> list[tuple[str, str, str]]:
    """What a run judged, in order: candidate, outcome, kind."""
    archive = Archive(folder / "archive.db")
    return [(e.candidate.id, e.result.status, e.kind) for e in archive.run_entries(archive.run().run_id)]


def comparable(summary: RunSummary) -> dict[str, object]:
    told = summary.model_dump(mode="json")
    timed = ("run_id", "seconds", "seconds_by_stage", "baselines", "base_url")  # a server's port is its own
    return {k: v for k, v in told.items() if k not in timed}


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    path = str(Path(scripted_run.__file__).parent)
    with forks_of(IMPORTS, tmp_path_factory.mktemp("forks"), (path,)) as made:
        yield made


def process(forks: Forks, folder: Path, url: str, *die: str) -> subprocess.CompletedProcess[str]:
    return forks.run(Path(scripted_run.__file__), str(folder), url, *die)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory):
    """An undisturbed run: its folder, summary and the questions that the server saw."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch, ScriptedServer(answer) as server:
        patch.setenv("WARPSMITH_API_KEY", "sk-canary-of-the-tests")
        outcome = play(folder, server.base_url)
    return folder, outcome.summary, [(r.system, r.prompt) for r in server.requests]


def test_a_run_learns_its_way_through(whole) -> None:
    folder, summary, asked = whole
    assert (summary.status, summary.fault) == ("win", "")
    assert [status for _, status, _ in story(folder)[:3]] == ["build-failed", "incorrect", "ok"]
    assert summary.exchanges == len(asked) == EXCHANGES
    assert summary.base_url.startswith("http://127.0.0.1:")
    assert summary.tokens > 0
    assert summary.usd is not None
    assert summary.usd > 0
    translated = summary.translation
    assert translated is not None
    assert (translated.attempted, translated.correct_first, translated.correct) == (1, 0, 1)
    assert translated.pass_at == {1: 0.0}
    assert "orchestrator stopped: enough" in summary.stopped


def test_the_report_shows_each_step_and_its_cost(whole) -> None:
    folder, summary, asked = whole
    report = build_report(Archive(folder / "archive.db"))
    outcomes = [(r.role, r.outcome) for r in report.exchanges]
    assert len(outcomes) == len(asked)
    assert outcomes[0] == ("reasoning", "1 hypothesis")
    assert outcomes[1] == ("synthesis", "unusable: no fenced code block in the answer")
    assert outcomes[2] == ("synthesis", "#1 build-failed: build-failed")
    assert ("compile", "#2 incorrect: incorrect") in outcomes
    assert any(role == "correctness" and text.startswith("#3 correct") for role, text in outcomes)
    assert ("orchestrator", "stop: enough") in outcomes
    assert sum(r.usd or 0 for r in report.exchanges) == pytest.approx(summary.usd)
    text = render_text(report, width=220)
    assert "What the language models were asked" in text
    assert f"{EXCHANGES} exchanges" in text
    assert "pass@1 0%" in text
    assert "openai:scripted" in text
    assert "--replay" in text or report.commands  # a module from memory has no command line


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "number"),
    [("exchange", n) for n in (1, 2, 3, 5, 8, 10, EXCHANGES)] + [("result", n) for n in (1, 3, 5)],
)
def test_a_killed_run_goes_on_to_the_same_result(
    whole, forks: Forks, tmp_path: Path, what: str, number: int
) -> None:
    folder, summary, asked = whole
    with ScriptedServer(answer) as server:
        killed = process(forks, tmp_path, server.base_url, what, str(number))
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        before = len(server.requests)
        done = process(forks, tmp_path, server.base_url)
        assert done.returncode == 0, done.stderr
    if what == "exchange":
        assert before == number
    assert [(r.system, r.prompt) for r in server.requests] == _with_noise(server, asked)
    assert len(server.requests) == EXCHANGES
    assert story(tmp_path) == story(folder)
    assert comparable(RunSummary.model_validate_json(done.stdout)) == comparable(summary)


def _with_noise(server: ScriptedServer, asked: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The questions as they were, none twice: what was measured differs from run to run, but not within one."""
    questions = [(r.system, r.prompt) for r in server.requests]
    assert len(set(questions)) == len(questions) == len(asked)
    return questions


def test_a_recorded_run_is_replayed_without_model_judge_or_key(
    whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, summary, _ = whole
    monkeypatch.delenv("WARPSMITH_API_KEY")
    before = Archive(folder / "archive.db").counts()
    again = make_run(folder, "http://127.0.0.1:9/v1").replay(summary.run_id)
    assert again.summary.fault == ""
    assert comparable(again.summary) == comparable(summary)
    assert again.best is not None
    assert Archive(folder / "archive.db").counts() == before


def test_a_replay_that_goes_another_way_says_so(whole, monkeypatch: pytest.MonkeyPatch) -> None:
    from warpsmith.agents.llm import reasoning

    folder, summary, _ = whole
    monkeypatch.setattr(reasoning, "OFFERS", 0)  # prompts of another version
    again = make_run(folder, "http://127.0.0.1:9/v1").replay(summary.run_id)
    assert "holds no answer to this question" in again.summary.fault
    assert again.summary.status == "failed"


def test_a_run_of_another_task_is_not_replayed(whole) -> None:
    folder, summary, _ = whole
    run = make_run(folder, "http://127.0.0.1:9/v1")
    run.task = run.task.model_copy(update={"name": "other"})
    with pytest.raises(UsageError, match="only be replayed on the same"):
        run.replay(summary.run_id)


def test_a_dead_endpoint_ends_the_run_with_what_was_reached_and_it_can_go_on(tmp_path: Path) -> None:
    seen: list[str] = []

    def dying(asked: Asked) -> str | Reply:
        seen.append(asked.prompt)
        return answer(asked) if len(seen) <= 8 else failing(401, message="no such key sk-canary-of-the-tests")

    with ScriptedServer(dying) as server:
        outcome = play(tmp_path, server.base_url)
    assert outcome.summary.fault
    assert "sk-canary" not in outcome.summary.model_dump_json()
    assert outcome.best is not None
    assert outcome.best.result.timing.confirmed
    assert Archive(tmp_path / "archive.db").run().summary is None
    with ScriptedServer(answer) as server:
        healed = play(tmp_path, server.base_url)
    assert healed.summary.fault == ""
    assert healed.summary.run_id == outcome.summary.run_id
    assert len(server.requests) == EXCHANGES - 8


def test_a_limit_of_tokens_ends_the_run_cleanly(tmp_path: Path) -> None:
    with ScriptedServer(answer) as server, stubs():
        run = make_run(tmp_path, server.base_url)
        run.budget = run.budget.model_copy(update={"tokens": 9_000})
        summary = run.play().summary
    assert "tokens spent" in summary.stopped
    assert summary.fault == ""
    assert len(server.requests) < EXCHANGES


def test_no_key_is_kept_anywhere(whole) -> None:
    folder, summary, _ = whole
    kept = b"".join(p.read_bytes() for p in folder.rglob("*") if p.is_file())
    assert b"sk-canary" not in kept
    assert "sk-canary" not in json.dumps(summary.model_dump(mode="json"))

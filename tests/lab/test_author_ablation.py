"""The ablation with a simulated author, on landscapes made by formula: it runs, is the same each time, and what is told counts."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from landscape_sample import sample_landscape

pytest.importorskip("pydantic_ai")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "lab"))

import author_ablation
from author_mistakes import MISTAKES, Failure, Failures
from author_reading import sections_of, shows
from simulated_author import Author, Library

from warpsmith.agents.llm.answers import read_unit
from warpsmith.agents.llm.prompts import render
from warpsmith.agents.llm.telling import region_text
from warpsmith.executors.landscape_data import Landscape
from warpsmith.executors.landscape_file import line
from warpsmith.llm.scripted_server import Asked
from warpsmith.records import Check, Diagnostic, Unit
from warpsmith.targets.task_header import region_header

TOKENS = 40_000


def failure(name: str) -> Failure:
    """Of a pointwise unit; half of the mistakes are a compiler's to find."""
    number = [m.name for m in MISTAKES].index(name)
    told = {"task": "chain", "nodes": (), "family": "pointwise", "technique": "fused", "mistake": name}
    if number < 5:
        found = Diagnostic(line=9, kind="error", message=f"{name}: the compiler says so")
        return Failure.model_validate(
            {**told, "status": "build-failed", "reason": name, "diagnostics": (found,)}
        )
    check = Check(
        variant="main", family="normal", where="whole", ok=False, rule="budget", detail=name, error=9.0
    )
    return Failure.model_validate({**told, "status": "incorrect", "reason": name, "check": check})


def second() -> Landscape:
    """The same under another name: another task."""
    land = sample_landscape()
    task = land.header.task.model_copy(update={"name": "other"})
    return land.model_copy(update={"header": land.header.model_copy(update={"task": task})})


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[tuple[Path, ...], Path]:
    """Landscapes, and what is known of mistakes."""
    folder = tmp_path_factory.mktemp("author")
    for land in (sample_landscape(), second()):
        records = [land.header, *land.sites, *land.sources, *land.points, *land.wholes]
        (folder / f"{land.header.task.name}.jsonl").write_text("\n".join(map(line, records)))
    rows = "".join(failure(m.name).model_dump_json() + "\n" for m in MISTAKES)
    (folder / "mistakes.jsonl").write_text(rows)
    return (folder / "chain.jsonl", folder / "other.jsonl"), folder / "mistakes.jsonl"


def test_the_ablation_counts_what_was_told_and_is_the_same_each_time(
    files: tuple[tuple[Path, ...], Path],
) -> None:
    ways = (author_ablation.FULL, "neither")
    rows = {way: [author_ablation.one_seed(*files, way, 1, TOKENS)] for way in ways}
    data = author_ablation.figures(rows, TOKENS)
    assert data[author_ablation.FULL]["all"]["told a lesson"] > 0 == data["neither"]["all"]["told a lesson"]
    assert data[author_ablation.FULL]["all"]["missing"] == 0
    for (one,) in rows.values():
        assert sorted(r.task for r in one) == ["chain", "other"]
        assert all(r.tokens >= TOKENS and r.units and r.exchanges > r.units for r in one)
        assert 0 < sum(r.failed for r in one) < sum(r.units for r in one)
    assert author_ablation.one_seed(*files, "neither", 1, TOKENS) == rows["neither"][0]
    told = {"command": "c", "seeds": 1, "tokens": TOKENS, "chances": {"mistake": 0.3}, "tasks": ["chain"]}
    page = author_ablation.page(told, json.loads(json.dumps(data)))
    assert "nothing about any real model" in page
    assert page.count("| neither |") == 3


def library() -> Library:
    found = Library(Failures(failure(m.name) for m in MISTAKES))
    found.add(sample_landscape())
    return found


def repaired(known: Library, unit: Unit, source: str, lessons: str, seed: int) -> str:
    graph = sample_landscape().header.task.graph
    system, prompt = render(
        "compile", target="cpu", diagnostics="line 9", source=f"```cpp\n{source}```",
        region=region_text(graph, unit.region), header=region_header(graph, unit.region, 1), lessons=lessons, knowledge="",
    )  # fmt: skip
    messages = [{"role": "system", "content": system}, {"role": "user", "content": prompt}]
    answer = Author(known, "chain", seed)(Asked("/", {}, {"messages": messages}, 0.0))
    return read_unit(answer, unit.region, "c++").source


def test_a_lesson_in_the_prompt_makes_repairs_work_more_often() -> None:
    known = library()
    unit = next(iter(known.units.values()))
    mistake = MISTAKES[0]
    wrong = mistake.made(unit.source)
    lesson = f"Failure: x\nWhat ended it:\n```diff\n+{mistake.code}\n```"
    right = {
        told: sum(
            known.failure("chain", unit.model_copy(update={"source": s})) is None
            for s in (repaired(known, unit, wrong, told, seed) for seed in range(30))
        )
        for told in ("", lesson)
    }
    assert 10 < right[""] < 25 < right[lesson]


def test_each_mistake_changes_a_source_and_is_found_again() -> None:
    known = library()
    unit = next(iter(known.units.values()))
    possible = known.possible("chain", unit)
    assert len(possible) > 4
    for mistake in possible:
        wrong = unit.model_copy(update={"source": mistake.made(unit.source)})
        found = known.failure("chain", wrong)
        assert found is not None
        assert found.mistake == mistake.name
    assert known.failure("chain", unit) is None


def test_only_the_remedy_of_its_own_mistake_counts_as_told() -> None:
    mistake, other = MISTAKES[0], MISTAKES[3]
    prompt = f"Do it.\n\n## Lessons from earlier failures\n```diff\n+{mistake.code}\n```\n## Knowledge\nnone"
    told = sections_of(prompt)["Lessons from earlier failures"]
    assert shows(told, mistake)
    assert not shows(told, other)

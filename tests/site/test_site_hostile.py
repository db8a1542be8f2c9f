"""Text of an archive can do no harm: it is no markup, no path, and it does not turn the direction of text."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from site_reader import Page, find_broken_links

from warpsmith.archive import Archive
from warpsmith.archive.rows import ArchiveWarning
from warpsmith.pages.safety import clip, make_file_id, show_controls
from warpsmith.records import Environment, Hypothesis, Lineage, TaskSource
from warpsmith.site import build_site
from warpsmith.testing import chain_candidate, chain_task, scripted_result

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'><svg/onload=alert(1)>{{ 7*7 }}\u202e\x00\u2028"


@pytest.fixture
def evil_site(open_archive: Callable[[str], Archive], environment: Environment, tmp_path: Path) -> Path:
    archive = open_archive("evil.db")
    text = EVIL.replace("\x00", "")  # PostgreSQL stores none
    source = TaskSource(kind="kernelbench", path=text, text=f'"""{text}"""\n')
    task = chain_task().model_copy(update={"name": text, "source": source, "suite": text, "note": text})
    where = environment.model_copy(update={"cpu": text, "device": text, "compiler": text})
    candidate = chain_candidate(text, f"// {text}\n{text}\n")
    lineage = Lineage(reason=text, agent=text, model=text, parents=(text,))
    candidate = candidate.model_copy(update={"task_id": task.id, "lineage": lineage})
    archive.begin_run("../../../evil", task, "cpu", 7, {}, where)
    archive.add_result("../../../evil", candidate, scripted_result(candidate, 2.0, where.id))
    failure = chain_candidate("fails").model_copy(update={"task_id": task.id})
    result = scripted_result(failure, "incorrect", where.id).model_copy(update={"reason": text})
    archive.add_result("../../../evil", failure, result)
    build_site([archive], tmp_path / "deep/er/out")
    return tmp_path / "deep/er/out"


def test_hostile_text_is_shown_and_is_no_markup(evil_site: Path) -> None:
    pages = [Page(p) for p in evil_site.rglob("*.html")]
    assert not [p.path for p in pages if p.problems]
    assert not [p.path for p in pages if "img" in p.tags]
    assert find_broken_links(evil_site) == []
    assert all(p.tags.count("script") <= 2 for p in pages)
    assert "<script>alert(1)</script>" in Page(next((evil_site / "tasks").glob("*.html"))).text
    assert "{{ 7*7 }}" in Page(next((evil_site / "tasks").glob("*.html"))).text


def test_hostile_text_ends_no_script(evil_site: Path) -> None:
    for path in (evil_site / "data").glob("*.js"):
        assert "<" not in path.read_text()
        assert path.read_text().isascii()


def test_controls_are_shown_by_number(evil_site: Path) -> None:
    texts = {p: p.read_text() for p in evil_site.rglob("*.html")}
    assert not [p for p, text in texts.items() if "\u202e" in text or "\u2028" in text]
    assert any("[U+202E]" in text for text in texts.values())
    assert show_controls("a\u202eb\x00\n\tc\u00e9\u200b") == "a[U+202E]b[U+0000]\n\tcé[U+200B]"


def test_an_id_that_is_a_path_leads_nowhere(evil_site: Path, tmp_path: Path) -> None:
    outside = [
        p
        for p in tmp_path.rglob("*")
        if p.is_file() and not p.is_relative_to(evil_site) and p.suffix != ".db"
    ]
    assert not [p for p in outside if not p.name.startswith("evil.db")]
    name = make_file_id("../../../evil")
    assert (evil_site / f"runs/{name}.html").is_file()
    assert json.loads((evil_site / f"api/runs/{name}.json").read_text())["run_id"] == "../../../evil"


@pytest.mark.parametrize(
    "identifier", ["", "con", "A" * 16, "a/b.c", "x" * 200, "x-0123456789abcdef", "..", "a\nb-c-d-e"]
)
def test_unfit_ids_become_hashes(identifier: str) -> None:
    name = make_file_id(identifier)
    assert name.startswith("x-")
    assert len(name) == 18
    assert name != identifier


def test_usual_ids_stay() -> None:
    assert [make_file_id(i) for i in ("0123456789abcdef", "run-1")] == ["0123456789abcdef", "run-1"]


def test_long_text_is_shortened() -> None:
    assert clip("a" * 9, 4) == "aaa…"


@pytest.mark.parametrize("number", [float("inf"), float("nan"), 0.0, -1.0, 1e300])
def test_numbers_and_times_may_be_anything(
    number: float, open_archive: Callable[[str], Archive], environment: Environment, tmp_path: Path
) -> None:
    archive, candidate = open_archive("odd.db"), chain_candidate("odd")
    median = 1.0 if math.isnan(number) else number  # no archive keeps one that is not a number
    archive.begin_run("run-odd", chain_task(), "cpu", 7, {}, environment)
    for confirmed in (False, True):
        result = scripted_result(candidate, 2.0, environment.id, confirmed=confirmed)
        assert result.timing is not None
        ratio = result.timing.ratios[0].model_copy(update={"median": median, "low": number, "high": number})
        update = {"ratios": (ratio,), "high_us": number, "limit_share": number}
        archive.add_result(
            "run-odd",
            candidate,
            result.model_copy(update={"timing": result.timing.model_copy(update=update)}),
        )
    with sqlite3.connect(archive.path) as connection:
        connection.execute("UPDATE runs SET started_at = 'yesterday'")
    connection.close()
    build_site([archive], tmp_path / "out")
    assert not [p for p in (tmp_path / "out").rglob("*.html") if Page(p).problems]
    for path in (tmp_path / "out").rglob("*.json"):
        json.loads(path.read_text(), parse_constant=lambda text: pytest.fail(f"{text} is no JSON"))


def test_damaged_rows_are_left_out_with_a_warning(sample: Archive, tmp_path: Path) -> None:
    idea = Hypothesis(
        region=chain_candidate("x").units[0].region, family="f", technique="t", bottleneck="memory", expected_gain=2.0,
        evidence=("it is slow",),
    )  # fmt: skip
    parent = chain_candidate("parent").model_copy(update={"lineage": Lineage(hypothesis=idea.id)})
    child = chain_candidate("best").model_copy(update={"lineage": Lineage(parents=(parent.id,))})
    environment = sample.run("run-one").environment.id
    sample.add_result("run-one", parent, scripted_result(parent, 1.1, environment), idea)
    sample.add_confirmation("run-one", child, scripted_result(child, 5.0, environment, confirmed=True))
    with sqlite3.connect(sample.path) as connection:
        connection.execute("UPDATE hypotheses SET record = 'torn'")
        connection.execute("UPDATE results SET record = 'torn' WHERE status = 'crashed'")
    connection.close()
    with pytest.warns(ArchiveWarning) as warned:
        counts = build_site([sample], tmp_path / "out")
    assert (counts.tasks, counts.runs) == (3, 2)
    assert any("run-one is shown without its attempts" in str(w.message) for w in warned)
    assert find_broken_links(tmp_path / "out") == []

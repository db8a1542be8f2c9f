"""Text of an archive cannot run in a browser: names, sources, models' words, files of other programs, lines of campaigns."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from chromium import Watch, serve_folder

from warpsmith.archive import Archive
from warpsmith.records import Environment, Hypothesis, Lineage, TaskSource
from warpsmith.site import build_site
from warpsmith.site.findings import read_finding
from warpsmith.site.suite_pages import read_suite
from warpsmith.testing import chain_candidate, chain_task, scripted_result

# Each would set `pwned`, ask for a page of elsewhere, or open a dialog.
ATTACKS = (
    "<script>globalThis.pwned = 1</script>",
    "<img src=x onerror='globalThis.pwned = 1'>",
    '"><svg onload=globalThis.pwned=1><a href=javascript:globalThis.pwned=1>go</a>',
    "</script></textarea></title></pre></canvas><iframe srcdoc='<script>parent.pwned = 1</script>'></iframe>",
    "');globalThis.pwned=1;//\\\";globalThis.pwned=1;//\u2028globalThis.pwned=1\u2029`${globalThis.pwned=1}`",
    "<link rel=stylesheet href=https://example.com/x.css><style>@import 'https://example.com/y.css'</style>",
    "<meta http-equiv=refresh content='0;url=https://example.com/'><base href=https://example.com/>",
    "<form action=https://example.com/><button autofocus onfocus=globalThis.pwned=1>x</button></form>{{ 7*7 }}__proto__",
)
EVIL = " ".join(ATTACKS)


@pytest.fixture(scope="module")
def evil_site(browser: Any, environment: Environment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("evil")
    with closing(Archive(folder / "evil.db")) as archive:
        for number, attack in enumerate((*ATTACKS, EVIL)):
            _add(archive, environment, number, attack)
        claim = {
            "task": EVIL,
            "claimed": 2.0,
            "verdict": EVIL,
            "label": EVIL,
            "reason": EVIL,
            "hardware": EVIL,
            "release": EVIL,
        }
        row = {
            "task": EVIL,
            "status": "win",
            "label": EVIL,
            "baseline": EVIL,
            "speedup": [2.0, 1.9, 2.1],
            "machine": EVIL,
            "reason": EVIL,
        }
        finding, suite = read_finding(claim), read_suite(EVIL, [row])
        assert finding is not None
        assert suite is not None
        build_site([archive], folder / "out", findings=[finding], suites=[suite])
    return folder / "out"


def _add(archive: Archive, environment: Environment, number: int, text: str) -> None:
    """Add a task whose every word is an attack, with a kernel, its child and a failure."""
    source = TaskSource(kind="kernelbench", path=text, text=f'"""{text}"""\n{text}\n')
    task = chain_task().model_copy(update={"name": text, "source": source, "suite": text, "note": text})
    where = environment.model_copy(update={"cpu": text, "device": text, "compiler": text})
    run_id = f"{number}/{text}"
    archive.begin_run(run_id, task, "cpu", 7, {}, where)
    parent = chain_candidate(text, f"// {text}\n{text}\n")
    unit = parent.units[0].model_copy(update={"family": text})
    idea = Hypothesis(
        region=unit.region,
        family=text,
        technique=text,
        bottleneck="memory",
        expected_gain=2.0,
        evidence=(text,),
    )
    parent = parent.model_copy(update={"task_id": task.id, "units": (unit,)})
    lineage = Lineage(
        reason=text, agent=text, model=text, parents=(parent.id,), hypothesis=idea.id, branch=text
    )
    other = unit.model_copy(update={"source": f"{unit.source}\n{text}"})
    child = parent.model_copy(update={"lineage": lineage, "units": (other,)})
    archive.add_result(run_id, parent, scripted_result(parent, 2.0, where.id))
    archive.add_result(run_id, child, scripted_result(child, 3.0, where.id), idea)
    failure = chain_candidate("fails").model_copy(update={"task_id": task.id})
    archive.add_result(
        run_id, failure, scripted_result(failure, "incorrect", where.id).model_copy(update={"reason": text})
    )


@pytest.mark.parametrize("over", ["file", "http"])
def test_no_attack_runs_on_any_page(evil_site: Path, browser: Any, over: str) -> None:
    pages = [
        p.relative_to(evil_site).as_posix() for p in evil_site.rglob("*.html") if p.parent.name != "docs"
    ]
    assert len(pages) > 40
    with serve_folder(evil_site) as server, closing(browser.new_context()) as context:
        address = server if over == "http" else evil_site.as_uri() + "/"
        page = context.new_page()
        watch = Watch(page, address)
        for path in pages if over == "file" else pages[::5]:
            page.goto(address + path)
            state = page.evaluate(
                "[globalThis.pwned, document.querySelectorAll('img, iframe, style, base, [onload], [onerror], [onfocus]').length]"
            )
            assert state == [None, 0], path
            links = page.evaluate("[...document.links].map((a) => a.protocol)")
            assert set(links) <= {"file:", "http:"}, path
    assert watch.problems == []


def test_no_attack_runs_where_scripts_show_text(evil_site: Path, browser: Any) -> None:
    with closing(browser.new_context()) as context:
        page = context.new_page()
        watch = Watch(page, evil_site.as_uri())
        page.goto(evil_site.as_uri() + "/search.html?q=" + "script")
        page.wait_for_selector("#results a")
        for words in ("<script>", "__proto__", "constructor", "onerror", "pwned"):
            page.locator("input[name=q]").fill(words)
        page.wait_for_timeout(100)
        assert page.evaluate(
            "[globalThis.pwned, document.querySelectorAll('#results img, #results script').length]"
        ) == [None, 0]
        page.goto(evil_site.as_uri() + "/map.html?by=technique&q=%3Cscript%3E")
        page.wait_for_selector("#legend li")
        page.locator("#map").focus()
        page.keyboard.press("ArrowRight")
        assert "script" in page.locator("#picked").inner_text()
        page.goto(evil_site.as_uri() + "/index.html?outcome=%22%3E%3Cscript%3E&q=%3Cimg")
        assert page.evaluate("globalThis.pwned") is None
        options = page.locator("select option").all_inner_texts()
        assert any("<script>" in text for text in options)
    assert watch.problems == []


def test_the_policy_stops_a_script_that_got_in(evil_site: Path, browser: Any, tmp_path: Path) -> None:
    page_file = evil_site / "index.html"
    broken = page_file.read_text().replace(
        "</main>", "<script>globalThis.pwned = 1</script><img src=x onerror='globalThis.pwned = 1'></main>"
    )
    (evil_site / "broken.html").write_text(broken)
    with closing(browser.new_context()) as context:
        page = context.new_page()
        watch = Watch(page, evil_site.as_uri())
        page.goto((evil_site / "broken.html").as_uri())
        assert page.evaluate("globalThis.pwned") is None
    (evil_site / "broken.html").unlink()
    assert sum("Content Security Policy" in text for text in watch.problems) >= 2


def test_names_of_files_are_made_of_letters_and_digits(evil_site: Path) -> None:
    names = [p.name for p in evil_site.rglob("*")]
    assert [n for n in names if not n.replace(".", "").replace("-", "").replace("_", "").isalnum()] == []
    assert json.loads((evil_site / "api/findings.json").read_text())[0]["task"] == EVIL

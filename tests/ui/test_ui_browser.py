"""The live page in a browser: a run from start to win, a killed one, a second browser, a stop, a kernel and its verdict."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from chromium import check_accessibility
from live_server import wait_for_activity, wait_until

REAL_SECONDS = 120.0  # a compiler, three processes of torch, fifteen seconds of search, a confirmation
KERNEL = """// warpsmith-unit: 1
// family: pointwise   technique: by-hand
// HANDMADE
#include "task.h"
static void unit(const in0_t* in0, out0_t* out0, void* workspace, void* stream) {}
"""


def test_a_run_is_seen_from_start_to_win_by_two_browsers(live, start_run, open_page):
    first = open_page(live.url)
    assert first.url == f"{live.home}/"  # the token is out of the address
    first.wait_for_selector("text=Nothing works on this archive now")
    run = start_run(0.12)
    first.click("#working a >> text=chain.py")
    second = open_page(live.url)
    second.goto(first.url)
    for page in (first, second):
        page.wait_for_selector("#state .badge.working")
        page.wait_for_selector("#stages .chip")
        page.wait_for_selector("#attempts tbody tr")
    for page in (first, second):
        page.wait_for_selector("#state .badge.ended")
        assert "win: " in page.inner_text("#state")
        assert "confirmed" in page.inner_text("#best")
        assert "over PyTorch eager" in page.inner_text("#best")
        assert "14 of 14 judged" in page.inner_text("#progress")
        assert "searching" in page.inner_text("#log")
        assert page.locator("#stages .chip").count() == 0
    assert json.loads(run.communicate()[0])["status"] == "win"


@pytest.mark.slow
@pytest.mark.alone
def test_a_real_run_is_seen_from_start_to_verdict(live, start_run, open_page):
    """With a compiler, a judge and eager beside it: what the page says in the end is what the run says."""
    page = open_page(live.url)
    task = Path(__file__).resolve().parents[2] / "examples/softmax.py"
    run = start_run(real=[str(task), "--time", "15s", "--budget", "6", "--baselines", "eager"])
    page.click("#working a >> text=softmax.py")
    page.wait_for_selector("#state .badge.working")
    page.wait_for_selector("#stages .chip", timeout=REAL_SECONDS * 1e3)
    page.wait_for_selector("#attempts tbody tr", timeout=REAL_SECONDS * 1e3)
    page.wait_for_selector("#state .badge.ended", timeout=REAL_SECONDS * 1e3)
    summary = json.loads(run.communicate()[0])
    assert summary["status"] in ("win", "no-win", "too-busy"), summary["reason"]  # clocks say which
    assert summary["status"] in page.inner_text("#state")
    if summary["status"] == "too-busy":
        return  # nothing was confirmed, and the page says so
    best = page.inner_text("#best")
    assert "confirmed" in best
    assert "over PyTorch eager" in best
    assert f"{summary['best']['speedup']['low']:.2f}" in best
    assert f"{summary['evaluations']} of 6 judged" in page.inner_text("#progress")


def test_a_killed_run_is_shown_as_killed(live, start_run, open_page):
    run = start_run(0.1, 400)
    page = open_page(live.url)
    page.wait_for_selector("#working a >> text=chain.py")
    activity = wait_for_activity(live, judged=1)
    run.kill()
    page.wait_for_selector("#finished .badge.killed")
    assert "Nothing works" in page.inner_text("#working")
    page.goto(f"{live.home}/live/{activity.activity_id}")
    assert "its process ended and said nothing" in page.inner_text("#state")
    assert page.locator("button:has-text('Stop')").count() == 0


def test_a_stop_from_the_page_ends_the_run_with_its_win(live, start_run, open_page):
    run = start_run(0.03, 400)
    page = open_page(live.url)
    page.click("#working a >> text=chain.py")
    page.wait_for_selector("#attempts tbody tr")
    page.focus("button.stop")
    page.keyboard.press("Enter")
    page.wait_for_selector("#requests .badge.done")
    page.wait_for_selector("#state .badge.ended")
    summary = json.loads(run.communicate()[0])
    assert (summary["status"], summary["stopped"]) == ("win", "stopped by request")
    assert summary["evaluations"] < 400


def test_what_is_asked_on_the_page_is_done_by_the_search(live, start_run, open_page):
    """A parent is pinned by the keyboard, text that is no kernel is refused and stays in the editor, a kernel gets its verdict."""
    start_run(0.03, 400)
    activity = wait_for_activity(live, judged=2)
    page = open_page(live.url)
    page.goto(f"{live.home}/live/{activity.activity_id}")
    page.wait_for_selector("#attempts button")
    pin = page.locator("#attempts button").first.get_attribute("id")
    newest = page.inner_text("#attempts tbody tr >> nth=0")
    page.focus(f"#{pin}")
    wait_until(lambda: page.inner_text("#attempts tbody tr >> nth=0") != newest)
    assert page.evaluate("document.activeElement.id") == pin  # although the table was replaced
    page.keyboard.press("Enter")
    page.wait_for_selector("#progress >> text=Pinned parent")
    assert "pinned as the first parent" in page.inner_text("#requests")

    page.click("summary:has-text('Submit a kernel')")
    page.fill("textarea", "int main() {}")
    page.click("button:has-text('Submit the kernel')")
    page.wait_for_selector("#trouble .note")
    assert "warpsmith-unit" in page.inner_text("#trouble")
    assert page.input_value("textarea") == "int main() {}"

    page.fill("textarea", KERNEL)
    page.fill("[name=author]", "ada")
    page.click("button:has-text('Submit the kernel')")
    page.wait_for_selector("#requests >> text=correct, 9.00x [8.82, 9.18] over eager")
    page.wait_for_selector("#best >> text=by-hand")
    page.click("#best a")
    assert "(ada)" in page.inner_text("main")
    assert "HANDMADE" in page.inner_text("pre")


def test_pages_fit_a_phone_and_name_what_they_hold(live, start_run, open_page):
    start_run(0.03, 400)
    activity = wait_for_activity(live, judged=1)
    for width, scheme in ((375, "dark"), (1280, "light")):
        page = open_page(live.url, viewport={"width": width, "height": 800}, color_scheme=scheme)
        for path in ("/", f"/live/{activity.activity_id}", f"/candidates/{activity.state.best_id}"):
            page.goto(f"{live.home}{path}")
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert check_accessibility(page) == []

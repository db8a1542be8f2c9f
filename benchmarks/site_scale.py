"""How long a site of many kernels takes to build, how large its pages are, and how soon a browser answers on it.

    python benchmarks/site_scale.py [--kernels 10000] [--tasks 500] [--site FOLDER] [--out results/cpu/site_scale.json]

Fills an archive with the made-up results of `archive_scale.py`, builds its site, and opens it from files in Chromium (`/usr/bin/chromium`, by
Playwright: extra `dev`). An answer's time is from the event until the second frame after it, when what it changed has been drawn; of several
the median and the least count, because a busy machine only adds. Limits asked for: build 5 minutes, search and leaderboard 100 ms, first
view 300 kB, a kernel's page 150 kB.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from archive_scale import World
from playwright.sync_api import Page, sync_playwright

from warpsmith.archive import Archive
from warpsmith.machine import describe
from warpsmith.site import build_site

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
]
ROUNDS = 15  # of each question
FIRST_VIEW = ("index.html", "site.css", "site.js", "icon.svg")
ANSWER = """async ([selector, kind, value]) => {
  const element = document.querySelector(selector);
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
  await frame();
  const start = performance.now();
  if (kind === "click") element.click();
  else if (kind === "key") element.dispatchEvent(new KeyboardEvent("keydown", { key: value }));
  else { element.value = value; element.dispatchEvent(new Event("input", { bubbles: true })); }
  const busy = performance.now() - start;
  await frame(); await frame();
  return [busy, performance.now() - start];
}"""


def measure_answers(page: Page, selector: str, kind: str, values: list[str]) -> dict[str, float]:
    """Return milliseconds: the script's own, and until the change is drawn."""
    times = [page.evaluate(ANSWER, [selector, kind, values[i % len(values)]]) for i in range(ROUNDS)]
    script, drawn = ([t[k] for t in times] for k in (0, 1))
    return {
        "script_ms": round(median(script), 1),
        "drawn_ms": round(median(drawn), 1),
        "drawn_least_ms": round(min(drawn), 1),
    }


def measure_pages(site: Path) -> dict[str, dict[str, float]]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = browser.new_page()
        page.goto((site / "index.html").as_uri())
        page.wait_for_selector("#count:not(:empty)")
        answers = {
            "leaderboard: words": measure_answers(
                page, "input[name=q]", "input", ["task_1", "softmax", "task", "nothing", ""]
            ),
            "leaderboard: outcome": measure_answers(
                page, "select[name=outcome]", "input", ["win", "failed", ""]
            ),
            "leaderboard: sort": measure_answers(page, "#board thead th:nth-child(3) button", "click", [""]),
        }
        page.goto((site / "search.html").as_uri())
        page.wait_for_function("warpsmith.search('task').length > 0")
        queries = ["blk", "task_12", "elementwise win", "acc_max float", "softmax"]
        for query in queries:  # parts of the index come once
            page.evaluate(ANSWER, ["input[name=q]", "input", query])
        page.wait_for_timeout(500)
        answers["search"] = measure_answers(page, "input[name=q]", "input", queries)
        page.goto((site / "map.html").as_uri())
        page.wait_for_selector("#legend li")
        answers["map: next point"] = measure_answers(
            page, "#map", "key", ["ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp"]
        )
        answers["map: colours"] = measure_answers(
            page, "select[name=by]", "input", ["technique", "low", "family"]
        )
        browser.close()
    return answers


def measure_sizes(site: Path) -> dict[str, int]:
    kernels = [p.stat().st_size for p in (site / "kernels").glob("*.html")]
    return {
        "first_view_bytes": sum((site / name).stat().st_size for name in FIRST_VIEW),
        "largest_kernel_page_bytes": max(kernels),
        "map_data_bytes": (site / "data/map.js").stat().st_size,
        "search_index_bytes": (site / "data/search.js").stat().st_size,
        "largest_words_bytes": max(p.stat().st_size for p in (site / "data/words").glob("*.js")),
    }


def measure(kernels: int, tasks: int, site: Path) -> dict[str, Any]:
    world = World(0, tasks)
    with tempfile.TemporaryDirectory() as folder:
        archive = Archive(Path(folder) / "archive.db")
        world.fill(archive, kernels)
        for task in world.tasks:
            archive.add_task(task)
        began, spent = time.perf_counter(), time.process_time()
        counts = build_site([archive], site, force=True)
        build = {
            "seconds": round(time.perf_counter() - began, 1),
            "processor_seconds": round(time.process_time() - spent, 1),
        }
        archive.close()
    load = [round(x, 1) for x in os.getloadavg()]
    sizes = {**measure_sizes(site), "site_bytes": counts.bytes, "pages": counts.pages}
    return {
        "kernels": counts.kernels, "tasks": counts.tasks, "build": build, "load_average": load, "sizes": sizes,
        "answers": measure_pages(site), "machine": describe().model_dump(mode="json"),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kernels", type=int, default=10_000)
    parser.add_argument("--tasks", type=int, default=500)
    parser.add_argument("--site", type=Path, help="keep the site in this folder")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        row = measure(given.kernels, given.tasks, given.site or Path(folder) / "site")
    text = json.dumps(row, indent=1) + "\n"
    print(text)
    if given.out:
        given.out.write_text(text)


if __name__ == "__main__":
    main()

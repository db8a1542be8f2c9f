"""Lighthouse's scores of a site's leaderboard and of one of its kernel pages, served from the loopback.

    npm install --prefix TOOLS lighthouse
    python benchmarks/site_lighthouse.py SITE --lighthouse TOOLS/node_modules/.bin/lighthouse [--out results/cpu/site_lighthouse.json]

Drives `/usr/bin/chromium`. Pages are sent as they are, without compression. Lighthouse's own defaults: a slow phone on a slow network,
simulated. The kernel page is the largest one of a win. Asked for: performance 95, accessibility 100.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from warpsmith.machine import describe

CHROMIUM = "/usr/bin/chromium"
FLAGS = "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync"
CATEGORIES = ("performance", "accessibility", "best-practices")
METRICS = (
    "first-contentful-paint",
    "largest-contentful-paint",
    "total-blocking-time",
    "cumulative-layout-shift",
    "speed-index",
)


def run_lighthouse(program: Path, url: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "report.json"
        command = [
            str(program), url, "--quiet", "--output=json", f"--output-path={out}", f"--chrome-flags={FLAGS}",
            f"--only-categories={','.join(CATEGORIES)}",
        ]  # fmt: skip
        subprocess.run(command, check=True, env={**os.environ, "CHROME_PATH": CHROMIUM}, timeout=300)
        report = json.loads(out.read_text())
    scores = {name: round(100 * (report["categories"][name]["score"] or 0)) for name in CATEGORIES}
    metrics = {name: round(report["audits"][name]["numericValue"], 3) for name in METRICS}
    failed = [
        a["id"]
        for a in report["audits"].values()
        if a.get("score") is not None and a["score"] < 1 and a["scoreDisplayMode"] == "binary"
    ]
    return {
        "scores": scores,
        "metrics": metrics,
        "failed": sorted(failed),
        "lighthouse": report["lighthouseVersion"],
    }


def find_pages(site: Path) -> dict[str, str]:
    wins = [k["page"] for k in json.loads((site / "api/kernels.json").read_text()) if k["outcome"] == "win"]
    largest = max(wins, key=lambda page: (site / page).stat().st_size)
    return {"leaderboard": "index.html", "kernel": largest}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("site", type=Path)
    parser.add_argument("--lighthouse", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    handler = partial(SimpleHTTPRequestHandler, directory=str(given.site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/"
        rows = {
            name: {"page": page, **run_lighthouse(given.lighthouse, address + page)}
            for name, page in find_pages(given.site).items()
        }
        server.shutdown()
    load = [round(x, 1) for x in os.getloadavg()]
    text = (
        json.dumps(
            {"pages": rows, "load_average": load, "machine": describe().model_dump(mode="json")}, indent=1
        )
        + "\n"
    )
    print(text)
    if given.out:
        given.out.write_text(text)


if __name__ == "__main__":
    main()

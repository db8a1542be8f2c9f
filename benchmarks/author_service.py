"""Seconds from a submission to its screened result, as a coding agent sees them: a scripted MCP client that optimises tasks in batches.

    python benchmarks/author_service.py results/cpu/author_service.json            # the judge in the MCP server's own process
    python benchmarks/author_service.py OUT --serve --kill                         # in `warpsmith serve`, which is killed at every stage

For each task it reads the header, asks for a profile (which opens the judge), then hands in batches of prepared kernels: the server's example
at other values of its tunables, and one that skips the work. No verdict is asked for but in the last batch, for its best. With `--serve` the
MCP server only forwards to a second process over HTTP on the loopback address. With `--kill` that process gets SIGKILL once at each stage (a job
was accepted, the judge opens, the first candidate is screened, the best is being judged), and is started again; at the end the archive is
asked whether anything was judged twice.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

from warpsmith.archive import Archive
from warpsmith.machine import cpu_name

TASKS = ("rmsnorm_last", "softmax_middle", "elementwise_swiglu", "reduce_logsumexp_last")
BATCH = 4  # candidates
POLL_SECONDS = 0.05
# (task, batch) by number → the stage at which the service is killed meanwhile; -1: the last batch.
KILLS = {(0, 0): "accepted", (0, 1): "screening", (0, -1): "judging", (1, 0): "opening"}
SKIPS_THE_WORK = """// warpsmith-unit: 1
// technique: skips the work
#include "task.h"
static void unit({parameters}, void* workspace, void* stream) {{
  for (int64_t i = 0; i < out0_numel; i++) out0[i] = out0_t(1);
}}
"""


@dataclass
class Batch:
    task: str
    confirm: str
    opened: bool  # the judge was open when it was handed in
    screened_s: list[float] = field(
        default_factory=list
    )  # from the submission to each candidate's first word
    seconds: float = 0.0  # to the end of the job
    statuses: list[str] = field(default_factory=list)
    killed: str = ""  # the stage at which the service was killed meanwhile
    starts: int = 1


class Service:
    """`warpsmith serve` as a process that can be killed and started again on the same archive."""

    def __init__(self, folder: Path, environment: dict[str, str], baselines: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.tokens, self._environment = folder / "tokens", environment
        run = [sys.executable, "-m", "warpsmith", "serve", "--token-file", str(self.tokens)]
        subprocess.run([*run, "--add-client", "laptop"], env=environment, check=True, capture_output=True)
        self._command = [*run, "--port", str(self.port), "--baselines", baselines]
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, env=self._environment)

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(30)


async def main() -> int:
    options = arguments()
    load = os.getloadavg()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = {**os.environ, "WARPSMITH_ARCHIVE": str(folder / "archive.db")}
        service = Service(folder, environment, options.baselines) if options.serve else None
        command = ["-m", "warpsmith", "mcp"]
        command += (
            ["--server", f"http://127.0.0.1:{service.port}", "--token-file", str(service.tokens)]
            if service is not None
            else ["--baselines", options.baselines]
        )
        server = StdioServerParameters(command=sys.executable, args=command, env=environment)
        try:
            async with Client(server) as client:
                batches = [
                    batch
                    for number, task in enumerate(options.tasks)
                    for batch in await play(client, task, options, service, number)
                ]
        finally:
            if service is not None:
                service.close()
        row = summarise(batches, options, load, count_twice(folder / "archive.db"))
    options.out.write_text(json.dumps(row, indent=1) + "\n")
    print(json.dumps({k: v for k, v in row.items() if k != "batches"}, indent=1))
    return 0 if row["judged_twice"] == 0 and row["verdicts"] == row["verdicts_asked_for"] else 1


async def play(
    client: Client, task: str, options: argparse.Namespace, service: Service | None, task_number: int
) -> list[Batch]:
    header = await call(client, "header", task=task, region="1")
    prepared = list(variants(header, options.batches * (BATCH - 1)))
    cheat = SKIPS_THE_WORK.format(parameters=parameters(header["region"]))
    rows = []
    for number in range(options.batches):
        sources = [*prepared[number :: options.batches][: BATCH - 1], f"{cheat}// {number}\n"]
        last = number == options.batches - 1
        stage = KILLS.get((task_number, -1 if last else number), "") if options.kill else ""
        batch = Batch(task, "best" if last else "none", opened=number > 0 or options.profile, killed=stage)
        if number == 0 and options.profile:
            await call(client, "profile", task=task)
        await hand_in(client, batch, sources, service)
        rows.append(batch)
        print(
            f"{task}: {batch.statuses} {[round(s, 1) for s in batch.screened_s]} {batch.seconds:.1f} s {stage}",
            flush=True,
        )
    return rows


async def hand_in(client: Client, batch: Batch, sources: list[str], service: Service | None) -> None:
    candidates = [{"units": [{"source": source, "region": "1"}]} for source in sources]
    started, seen = time.monotonic(), set[str]()
    job = await call(
        client,
        "submit_units",
        task=batch.task,
        candidates=candidates,
        confirm=batch.confirm,
        wait_s=0,
        author="script",
    )
    waiting = batch.killed if service is not None else ""
    while True:
        for row in job["rows"]:
            if row["candidate"] not in seen:
                seen.add(row["candidate"])
                batch.screened_s.append(time.monotonic() - started)
        if waiting and has_reached(job, waiting) and service is not None:
            service.kill()
            service.start()
            waiting = ""
        if job["state"] in ("done", "failed", "cancelled"):
            break
        await asyncio.sleep(POLL_SECONDS)
        job = await call(client, "job", job=job["job_id"])
    batch.seconds, batch.starts = time.monotonic() - started, job["starts"]
    batch.statuses = [row["status"] for row in job["rows"]] or [f"{job['state']}: {job['error']}"]


def has_reached(job: dict[str, Any], stage: str) -> bool:
    return {
        "accepted": True,
        "opening": job["stage"] != "",
        "screening": len(job["rows"]) >= 1,
        "judging": len(job["rows"]) >= BATCH,
    }[stage]


def variants(header: dict[str, Any], most: int) -> Iterator[str]:
    """The example, then at another value of one tunable after another."""
    source = header["example"]
    yield source
    for line in [text for text in source.splitlines() if text.startswith("// tunable:")][:most]:
        head, _, domain = line.partition("{")
        value = head.rpartition("=")[2].strip()
        for other in (v.strip() for v in domain.rstrip("} ").split(",")):
            if other != value:
                yield source.replace(line, line.replace(f"= {value} ", f"= {other} ", 1), 1)


def parameters(region: dict[str, Any]) -> str:
    operands = [*region["inputs"], *region["outputs"]]
    return ", ".join(
        f"{'const ' if o['name'].startswith('in') else ''}{o['name']}_t* {o['name']}" for o in operands
    )


def count_twice(archive: Path) -> Counter[str]:
    """Content key and pass → how often the archive has a verdict of it; `twice` counts those above one."""
    store, counts = Archive(archive), Counter[str]()
    for run in store.runs():
        for entry in store.run_entries(run.run_id):
            if entry.result.status == "ok":
                counts[
                    f"{'confirmed' if entry.result.confirmed else 'judged'} {entry.candidate.content_key}"
                ] += 1
    return counts


def summarise(
    batches: list[Batch],
    options: argparse.Namespace,
    load: tuple[float, float, float],
    verdicts: Counter[str],
) -> dict[str, Any]:
    undisturbed = [b for b in batches if not b.killed]
    opened = [s for b in undisturbed if b.opened for s in b.screened_s]
    judged = [b for b in batches if "ok" in b.statuses or b.confirm == "best"]
    return {
        "command": " ".join(["python benchmarks/author_service.py", *sys.argv[1:]]),
        "cpu": cpu_name(), "processors": os.cpu_count(), "python": platform.python_version(),
        "load_before": [round(v, 1) for v in load], "load_after": [round(v, 1) for v in os.getloadavg()],
        "tasks": list(options.tasks), "face": "MCP, forwarded to warpsmith serve" if options.serve else "MCP",
        "candidates": sum(len(b.statuses) for b in batches),
        "median_s_to_screened": round(statistics.median(opened), 2) if opened else None,
        "median_s_to_first_of_a_batch": round(statistics.median([b.screened_s[0] for b in undisturbed if b.opened and b.screened_s]), 2),
        "slowest_s_to_screened": round(max(opened, default=0.0), 2),
        "verdicts_asked_for": len(judged), "verdicts": sum(b.statuses.count("ok") > 0 for b in batches),
        "killed_at": [b.killed for b in batches if b.killed], "starts": [b.starts for b in batches],
        "judged_twice": sum(n > 1 for n in verdicts.values()),
        "cheats_found_out": sum("incorrect" in b.statuses for b in batches), "batches": [vars(b) for b in batches],
    }  # fmt: skip


async def call(client: Client, tool: str, **given: Any) -> dict[str, Any]:
    answer = await client.call_tool(tool, given)
    if answer.is_error or answer.structured_content is None:
        raise SystemExit(" ".join(getattr(part, "text", "") for part in answer.content))
    return answer.structured_content


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--tasks", nargs="+", default=TASKS)
    parser.add_argument("--batches", type=int, default=3, help="of each task")
    parser.add_argument("--baselines", default="eager,compile")
    parser.add_argument("--serve", action="store_true", help="the judge is behind `warpsmith serve`")
    parser.add_argument("--kill", action="store_true", help="kill that service once at each stage")
    parser.add_argument(
        "--no-profile", dest="profile", action="store_false", help="the first batch opens the judge"
    )
    options = parser.parse_args()
    if options.kill and not options.serve:
        parser.error("--kill needs --serve")
    options.profile = options.profile and not options.kill  # or no batch would be there while a judge opens
    return options


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))

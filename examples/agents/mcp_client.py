"""A scripted coding agent: it optimizes tasks through the MCP server, as Claude Code or Codex would.

    python examples/agents/mcp_client.py                                # two tasks of suite core
    python examples/agents/mcp_client.py mine.py --archive mine.db

For each task it reads what the server says, hands in a unit that skips the work (and is found out), then
the unit that the server gives as an example, then that unit with one tunable moved at a time, on top of the
best so far. A table at the end has a row for each task. The exit code is 0 when each of them was judged: the unit
that skips the work was found out, and the board has a correct kernel. Needs `pip install 'warpsmith[mcp]'`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from mcp import Client, StdioServerParameters

TUNABLE = re.compile(r"^// tunable: (\w+) = (-?\d+) \{([^}]*)\}$", re.MULTILINE)
SKIPS_THE_WORK = """// warpsmith-unit: 1
// technique: skips the work
#include "task.h"
static void unit({parameters}, void* workspace, void* stream) {{
  for (int64_t i = 0; i < out0_numel; i++) out0[i] = out0_t(1);
}}
"""


@dataclass
class Outcome:
    """What came of one task."""

    task: str
    verdicts: list[dict[str, Any]] = field(
        default_factory=list
    )  # in the order of submission; the first is of the cheat
    best: dict[str, Any] | None = None  # the board's first row

    @property
    def judged(self) -> bool:
        found_out = bool(self.verdicts) and not self.verdicts[0]["correct"]
        return found_out and self.best is not None and any(v["correct"] for v in self.verdicts)

    @property
    def verdict(self) -> str:
        if self.best is None:
            return "no correct kernel"
        if self.verdicts[0]["correct"]:
            return "the cheat passed"
        win = self.best["confirmed"] and self.best["speedup"]["low"] > 1
        return "confirmed win" if win else "correct, no confirmed win"


async def main() -> int:
    options = arguments()
    command = ["-m", "warpsmith", "mcp", *(["--archive", options.archive] if options.archive else [])]
    command += ["--baselines", options.baselines] if options.baselines else []
    server = StdioServerParameters(command=sys.executable, args=command, env=dict(os.environ))
    async with Client(server) as client:
        outcomes = [await optimize(client, task, options.variants) for task in options.tasks]
    print("\n" + "\n".join(table(outcomes)))
    return 0 if all(outcome.judged for outcome in outcomes) else 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("tasks", nargs="*", default=["softmax_middle", "rmsnorm_last"])
    parser.add_argument("--variants", type=int, default=3, help="settings of tunables to try")
    parser.add_argument("--archive", help="the server's archive")
    parser.add_argument("--baselines", help="the server's baselines")
    return parser.parse_args()


async def optimize(client: Client, task: str, variants: int) -> Outcome:
    outcome = Outcome(task)
    sheet = await call(client, "read_task", task=task)
    print(f"{sheet['name']}: {len(sheet['regions'])} regions, {sheet['least_bytes']:,} bytes at least")
    header = await call(client, "header", task=task, region="1")
    outcome.verdicts.append(await submit(client, task, cheat(header["region"]), "does it notice?"))
    example = header["example"]
    if not example:
        print("  the server has no example for this region: an agent would write one from header's rules")
        return outcome
    outcome.verdicts.append(await submit(client, task, example, "as the expert writes it"))
    for source, why in list(moved(example))[:variants]:
        outcome.verdicts.append(await submit(client, task, source, why, onto="best"))
    rows = (await call(client, "board", task=task))["result"]
    outcome.best = rows[0] if rows else None
    for row in rows:
        text = f"{speedup(row)}, {row['limit_share']:.0%} of the limit"
        print(f"  {row['rank']}. {text}, by {row['author']} on {row['hardware']}")
    return outcome


def speedup(row: dict[str, Any]) -> str:
    ratio = row["speedup"]
    return f"{ratio['median']:.2f}x [{ratio['low']:.2f}, {ratio['high']:.2f}] over {ratio['baseline']}"


def table(outcomes: Sequence[Outcome]) -> list[str]:
    """Columns of even width, a row a task."""
    rows = [("task", "verdict", "submitted", "correct", "best speedup", "of the limit")]
    for o in outcomes:
        best = (speedup(o.best), f"{o.best['limit_share']:.0%}") if o.best else ("-", "-")
        rows.append(
            (o.task, o.verdict, str(len(o.verdicts)), str(sum(v["correct"] for v in o.verdicts)), *best)
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows]


async def submit(client: Client, task: str, source: str, note: str, onto: str = "") -> dict[str, Any]:
    given: dict[str, Any] = {"task": task, "units": [{"source": source, "region": "1"}], "onto": onto}
    verdict = await call(client, "submit_unit", **given, author="scripted agent", note=note)
    print(f"  {note}: {verdict['status']} {verdict['reason']}".rstrip())
    return verdict


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """A tool's structured answer; what the server is doing meanwhile goes to standard error."""

    async def progress(seconds: float, total: float | None, message: str | None) -> None:
        print(f"    {seconds:.0f} s: {message}", file=sys.stderr)

    answer = await client.call_tool(tool, arguments, progress_callback=progress)
    if answer.is_error or answer.structured_content is None:
        raise SystemExit(" ".join(getattr(part, "text", "") for part in answer.content))
    return answer.structured_content


def cheat(region: dict[str, Any]) -> str:
    names = [
        (o["name"], "const " if o["name"].startswith("in") else "")
        for o in (*region["inputs"], *region["outputs"])
    ]
    return SKIPS_THE_WORK.format(parameters=", ".join(f"{const}{n}_t* {n}" for n, const in names))


def moved(source: str) -> Iterator[tuple[str, str]]:
    """The same unit with one tunable at another of its values."""
    for name, value, domain in TUNABLE.findall(source):
        for other in (v.strip() for v in domain.split(",") if v.strip() != value):
            line = f"// tunable: {name} = {value} {{{domain}}}"
            yield source.replace(line, f"// tunable: {name} = {other} {{{domain}}}"), f"{name}={other}"


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))

"""A scripted coding agent: it optimizes tasks through the MCP server, as Claude Code or Codex would.

    python examples/agents/mcp_client.py                                # two tasks of suite core
    python examples/agents/mcp_client.py mine.py --archive mine.db

For each task it reads what the server says, hands in a unit that skips the work (and is found out), then
the unit that the server gives as an example, then that unit with one tunable moved at a time, on top of the
best so far. Needs `pip install 'warpsmith[mcp]'`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
from collections.abc import Iterator
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


async def main() -> int:
    options = arguments()
    command = ["-m", "warpsmith", "mcp", *(["--archive", options.archive] if options.archive else [])]
    command += ["--baselines", options.baselines] if options.baselines else []
    server = StdioServerParameters(command=sys.executable, args=command, env=dict(os.environ))
    async with Client(server) as client:
        won = [await optimize(client, task, options.variants) for task in options.tasks]
    return 0 if all(won) else 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("tasks", nargs="*", default=["softmax_middle", "rmsnorm_last"])
    parser.add_argument("--variants", type=int, default=3, help="settings of tunables to try")
    parser.add_argument("--archive", help="the server's archive")
    parser.add_argument("--baselines", help="the server's baselines")
    return parser.parse_args()


async def optimize(client: Client, task: str, variants: int) -> bool:
    """Whether the board ends with a correct kernel."""
    sheet = await call(client, "read_task", task=task)
    print(f"{sheet['name']}: {len(sheet['regions'])} regions, {sheet['least_bytes']:,} bytes at least")
    header = await call(client, "header", task=task, region="1")
    await submit(client, task, cheat(header["region"]), "does it notice?")
    example = header["example"]
    if not example:
        print("  the server has no example for this region: an agent would write one from header's rules")
        return False
    await submit(client, task, example, "as the expert writes it")
    for source, why in list(moved(example))[:variants]:
        await submit(client, task, source, why, onto="best")
    rows = (await call(client, "board", task=task))["result"]
    for row in rows:
        ratio = row["speedup"]
        text = f"{ratio['median']:.2f}x [{ratio['low']:.2f}, {ratio['high']:.2f}] over {ratio['baseline']}"
        print(
            f"  {row['rank']}. {text}, {row['limit_share']:.0%} of the limit, by {row['author']} on {row['hardware']}"
        )
    return bool(rows)


async def submit(client: Client, task: str, source: str, note: str, onto: str = "") -> None:
    given: dict[str, Any] = {"task": task, "units": [{"source": source, "region": "1"}], "onto": onto}
    verdict = await call(client, "submit_unit", **given, author="scripted agent", note=note)
    print(f"  {note}: {verdict['status']} {verdict['reason']}".rstrip())


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

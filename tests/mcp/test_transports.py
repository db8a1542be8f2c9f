"""The server as a program of its own: the full cycle over standard input and output with the real judge,
HTTP, and its ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

pytest.importorskip("mcp")

from mcp import Client, StdioServerParameters

TASK = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(torch.tanh(x * 1.5 + 0.2), 1) * 3.0  # far slower than one kernel, whatever else runs
def get_inputs():
    return [torch.rand(512, 1000)]
"""
WRONG = """// warpsmith-unit: 1
// technique: copies its input
#include "task.h"
static void unit(const in0_t* in0, out0_t* out0, void* workspace, void* stream) {
  for (int64_t i = 0; i < out0_numel; i++) out0[i] = in0[i];
}
"""
COMMAND = ["-m", "warpsmith", "mcp", "--baselines", "eager"]


@pytest.fixture
def environment(tmp_path: Path, with_peaks: Callable[[Path], Path]) -> dict[str, str]:
    (tmp_path / "task.py").write_text(TASK)
    cache = with_peaks(tmp_path / "cache")
    own = {"WARPSMITH_ARCHIVE": str(tmp_path / "archive.db"), "WARPSMITH_CACHE": str(cache)}
    return {**os.environ, **own}


async def call(client: Client, tool: str, heard: list[str] | None = None, **given: Any) -> Any:
    async def progress(seconds: float, total: float | None, message: str | None) -> None:
        if heard is not None and message:
            heard.append(message)

    answer = await client.call_tool(tool, given, progress_callback=progress)
    assert not answer.is_error, answer.content
    return answer.structured_content


def descendants() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


@pytest.mark.slow
@pytest.mark.alone  # its timing must count
def test_the_full_cycle_over_stdio(environment: dict[str, str], tmp_path: Path) -> None:
    before, during, heard = descendants(), [], []  # type: ignore[var-annotated]

    async def cycle() -> None:
        server = StdioServerParameters(
            command=sys.executable, args=COMMAND, env=environment, cwd=str(tmp_path)
        )
        async with Client(server) as client:
            assert (await call(client, "list_tasks"))["result"]
            view = await call(client, "read_task", task="task.py")
            assert view["limit_us"] > 0
            header = await call(client, "header", task="task.py", region="1")
            wrong = await call(
                client,
                "submit_unit",
                heard,
                task="task.py",
                units=[{"source": WRONG, "region": "1"}],
                author="Eve",
            )
            assert (wrong["status"], wrong["correct"]) == ("incorrect", False)
            assert "it is input 0" in wrong["evidence"][0]
            good = await call(
                client, "submit_unit", task="task.py", units=[{"source": header["example"]}], author="Ada"
            )
            assert good["correct"], f"{good['status']}: {good['reason']}"
            assert good["speedup"][0]["baseline"] == "eager"
            during.extend(p for p in descendants() if p not in before)
            rows = (await call(client, "board", task="task.py"))["result"]
            assert [(r["candidate"], r["author"]) for r in rows] == [(good["candidate"], "Ada")]
            history = (await call(client, "history", task="task.py"))["result"]
            assert {r["author"] for r in history} == {"Ada", "Eve"}

    asyncio.run(cycle())
    assert len(set(heard)) > 2  # what the judge did meanwhile
    assert len(during) > 2  # the server and the judge's processes
    _, alive = psutil.wait_procs(during, timeout=10)
    assert not alive
    listed = warpsmith("archive", "list", "--json", "-", environment=environment)
    runs = json.loads(listed.stdout)
    assert [(r["task_name"], r["summary"]["status"] != "failed") for r in runs] == [("task", True)]


def warpsmith(*arguments: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "warpsmith", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def started(environment: dict[str, str], folder: Path, *requests: dict[str, Any]) -> subprocess.Popen[str]:
    """The server, its greeting and these requests sent; they are numbered from 2."""
    hello = {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
    }  # fmt: skip
    messages = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        *({"id": number, **request} for number, request in enumerate(requests, 2)),
    ]
    process = subprocess.Popen(
        [sys.executable, *COMMAND], env=environment, cwd=folder, text=True, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    process.stdin.write("".join(json.dumps({"jsonrpc": "2.0", **m}) + "\n" for m in messages))
    process.stdin.flush()
    return process


def test_nothing_but_the_protocol_is_on_standard_output(environment: dict[str, str], tmp_path: Path) -> None:
    unknown = {"name": "verdict", "arguments": {"candidate": "x"}}
    process = started(
        environment, tmp_path, {"method": "tools/list"}, {"method": "tools/call", "params": unknown}
    )
    assert process.stdout is not None
    answers = [json.loads(process.stdout.readline()) for _ in range(3)]
    out, _ = process.communicate(timeout=30)  # closes standard input: the client has left
    assert out == ""
    assert process.returncode == 0
    by_id = {a["id"]: a["result"] for a in answers}
    assert by_id[1]["serverInfo"]["name"] == "warpsmith"
    assert "submit_unit" in {t["name"] for t in by_id[2]["tools"]}
    assert by_id[3]["isError"] is True


@pytest.mark.slow
def test_a_client_that_leaves_in_the_middle_leaves_nothing_behind(
    environment: dict[str, str], tmp_path: Path
) -> None:
    given = {"task": "task.py", "units": [{"source": WRONG, "region": "1"}]}
    process = started(
        environment, tmp_path, {"method": "tools/call", "params": {"name": "submit_unit", "arguments": given}}
    )
    server, deadline = psutil.Process(process.pid), time.monotonic() + 120
    judging: list[psutil.Process] = []
    while len(judging) < 3 and time.monotonic() < deadline:  # the trusted workers and the bench
        time.sleep(0.05)
        judging = server.children(recursive=True)
    assert len(judging) >= 3
    process.communicate(timeout=30)
    _, alive = psutil.wait_procs(judging, timeout=10)
    assert not alive
    left = [
        f for p in Path("/dev/shm").glob(f"warpsmith-{process.pid}-*") for f in p.rglob("*") if f.is_file()
    ]
    assert sum(f.stat().st_size for f in left) < 1 << 16


@pytest.fixture
def http(environment: dict[str, str], tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, *COMMAND, "--http", str(port)]
    process = subprocess.Popen(command, env=environment, cwd=tmp_path, stderr=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield process, port
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_http_on_this_machine_alone(
    http: tuple[subprocess.Popen[bytes], int], environment: dict[str, str]
) -> None:
    process, port = http

    async def light() -> None:
        async with Client(f"http://127.0.0.1:{port}/mcp") as client:
            assert {"read_task", "submit_unit"} <= {t.name for t in (await client.list_tools()).tools}
            view = await call(client, "read_task", task="task.py")
            assert view["name"] == "task"
            answer = await client.call_tool("header", {"task": "task.py", "region": "99"})
            assert answer.is_error

    asyncio.run(light())
    listening = [c.laddr.ip for c in psutil.Process(process.pid).net_connections() if c.status == "LISTEN"]
    assert listening == ["127.0.0.1"]
    foreign = urllib.request.Request(
        f"http://127.0.0.1:{port}/mcp", b"{}", {"Host": "evil.example", "Content-Type": "application/json"}
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(foreign, timeout=10)
    assert refused.value.code == 421
    taken = warpsmith("mcp", "--http", str(port), environment=environment)
    assert taken.returncode == 2
    assert "choose another --http PORT" in taken.stderr
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) in (0, 130, -signal.SIGTERM)

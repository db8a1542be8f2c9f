"""A real, small language model on loopback: SmolLM2-135M behind llama.cpp's server, as `scripts/local_model.py` serves it.

In: how many tokens a question and its answer may have. Out: a server in a process of its own, which ends with the `with`
block, and also when the tests are killed. What the model says is nonsense; that it is said by real weights over the real
protocol is the point.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

SCRIPT = Path(__file__).parents[2] / "scripts" / "local_model.py"
NAME = "smollm2"


def local_model() -> ModuleType:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("local_model", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    script = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def missing() -> str:
    """What has to be installed first; empty when all is there."""
    if importlib.util.find_spec("xllamacpp") is None:
        return "no server: pip install 'warpsmith[realmodel]'"
    here = local_model().MODELS[NAME].path().is_file()
    return "" if here else f"no weights: python scripts/local_model.py {NAME} --fetch"


@dataclass(frozen=True)
class RealServer:
    base_url: str
    process: subprocess.Popen[str]

    def stop(self) -> None:
        """The process ends when its standard input does."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(10)
        finally:
            self.process.kill()


@contextmanager
def serving(context: int) -> Iterator[RealServer]:
    # One thread: where other tests take the cores, two that wait for each other are many times slower.
    command = [sys.executable, str(SCRIPT), NAME, "--context", str(context), "--threads", "1", "--until-eof"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        server = RealServer(process.stdout.readline().strip(), process)
        try:
            assert server.base_url.startswith("http://127.0.0.1:"), "the server did not start"
            yield server
        finally:
            server.stop()

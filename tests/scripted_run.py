"""A whole run with a scripted model and a judge by formula, as a process of its own that may be told to die on the way.

    python scripted_run.py FOLDER BASE_URL [exchange|result N]

With the last two words it kills itself (SIGKILL) right after the Nth exchange, or result, was kept. What the judge
measures of the task differs from process to process, as it does on a real machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from warpsmith.archive.store import Archive
from warpsmith.config import Config
from warpsmith.llm.scripted_server import Asked
from warpsmith.pipeline import Outcome, Run
from warpsmith.pipeline import run as run_module
from warpsmith.processes.buffers import Scratch
from warpsmith.progress import SilentObserver
from warpsmith.records import (
    Admission,
    BaselineTiming,
    Budget,
    Build,
    Candidate,
    Diagnostic,
    Environment,
    Graph,
    Limit,
    Region,
    Result,
    Unit,
)
from warpsmith.targets.task_header import region_header
from warpsmith.testing import chain_task, scripted_result

HERE = Environment(
    cpu="scripted",
    cores=2,
    threads=2,
    memory_gb=1.0,
    simd="none",
    os="none",
    python="3",
    torch="0",
    compiler="none",
)
UNIT = """// warpsmith-unit: 1
// family: pointwise   technique: {technique}
// tunable: UNROLL = 1 {{1, 2}}
#include "task.h"
static void unit(const in0_t* in0, out0_t* out0, void* workspace, void* stream) {{ run("{technique} {note}", UNROLL); }}
"""


class StubTarget:
    name = "cpu"
    language = "c++"

    def header(self, graph: Graph, region: Region) -> str:
        return region_header(graph, region, 2)

    def build(self, unit: Unit, graph: Graph, variant: str) -> Build:
        return Build(unit_key=unit.code_key, variant=variant, ok=False)


class StubJudge:
    """Opened at once; its times of the reference are of this process."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.target = StubTarget()
        noise = os.getpid() % 97  # as many digits whatever it is: tokens are counted by characters
        self.baselines = {"eager": BaselineTiming(name="eager", ok=True, median_us=200.0 + noise)}
        self.limit = Limit(
            seconds=1e-6,
            least_bytes=1,
            flops=1,
            bytes_per_second=1e9 + noise,
            flops_per_second=1e9,
            bound="memory",
        )
        self.admission, self.environment = Admission(admitted=True, mutants={}), HERE
        self.node_us, self.seconds = {"n0": 260.0 + noise, "n1": 40.0}, {"inputs": 0.1}

    def open(self) -> None: ...

    def remeasure_limit(self) -> Limit:
        return self.limit

    def __enter__(self) -> StubJudge:
        return self

    def __exit__(self, *_: object) -> None: ...


def speed(candidate: Candidate) -> float | str:
    """By what the sources say of themselves."""
    told = " ".join(u.source for u in candidate.units)
    for status in ("build-failed", "incorrect", "crashed"):
        if status in told:
            return status
    gain = 1.0 + sum(0.25 * u.values["UNROLL"] for u in candidate.units)
    return gain * (1.5 if "third" in told else 1.0)


class StubExecutor:
    def __init__(self, judge: StubJudge) -> None:
        self.spent: defaultdict[str, float] = defaultdict(float)

    def run(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        for candidate in candidates:
            yield _placed(scripted_result(candidate, speed(candidate)), candidate)

    def remeasure(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        for candidate in candidates:
            yield _placed(scripted_result(candidate, speed(candidate)), candidate)

    def wait_until_quiet(self, seconds: float) -> bool:
        return True

    def confirm(self, candidate: Candidate) -> Result:
        result = _placed(scripted_result(candidate, speed(candidate)), candidate)
        assert result.timing is not None
        return result.model_copy(
            update={"timing": result.timing.model_copy(update={"confirmed": True, "median_us": 7.0})}
        )


def _placed(result: Result, candidate: Candidate) -> Result:
    found = Diagnostic(line=5, kind="error", message="‘x’ was not declared in this scope")
    build = Build(unit_key=candidate.units[0].code_key, variant="main", ok=False, diagnostics=(found,))
    builds = (build,) if result.status == "build-failed" else ()
    return result.model_copy(update={"environment": HERE.id, "builds": builds})


def answer(asked: Asked) -> str:
    """By what is asked alone, so that it does not matter when, or by which process."""
    prompt = asked.prompt
    if "You are the reasoning agent" in prompt:
        technique = "first" if "Round 0" in prompt else "second" if "Round 1" in prompt else "third"
        item = {
            "region": 0,
            "family": "pointwise",
            "technique": technique,
            "expected_gain": 1.5,
            "evidence": ["slow"],
        }
        return json.dumps([item])
    if "You are the orchestrator" in prompt:
        stop = "enough" if "Round 3" in prompt else ""
        return json.dumps({"rewrites": 1, "variants": 1, "tunes": 1, "stop": stop})
    if "You are the reviewer" in prompt:
        return "[]"
    if "You are the compile agent" in prompt:
        return _block("first", "incorrect")
    if "You are the correctness agent" in prompt:
        return _block("first", "mended")
    for technique in ("second", "third"):
        if f"technique: {technique}" in prompt:
            return _block(technique, "plain")
    return _block("first", "build-failed") if "could not be used" in prompt else "garbage"


def _block(technique: str, note: str) -> str:
    return f"```cpp\n{UNIT.format(technique=technique, note=note)}```"


def config(folder: Path, base_url: str) -> Config:
    return Config(
        archive=folder / "archive.db", cache=folder / "cache", model="openai:scripted", base_url=base_url,
        branches=1, variants=1, price="1/2", near_limit=1e9, patience=5,
    )  # fmt: skip


def make_run(folder: Path, base_url: str) -> Run:
    settings = config(folder, base_url)
    return Run(
        chain_task(), StubTarget(), Budget(evaluations=30, seconds=None), settings, Archive(settings.archive),
        SilentObserver(), Scratch(), seed=5,
    )  # fmt: skip


@contextlib.contextmanager
def stubs() -> Iterator[None]:
    kept = run_module.ScreeningJudge, run_module.LocalExecutor
    run_module.ScreeningJudge, run_module.LocalExecutor = StubJudge, StubExecutor  # type: ignore[assignment,misc]
    try:
        yield
    finally:
        run_module.ScreeningJudge, run_module.LocalExecutor = kept  # type: ignore[misc]


def play(folder: Path, base_url: str) -> Outcome:
    with stubs():
        return make_run(folder, base_url).play()


def die_after(method: str, count: int) -> None:
    original = getattr(Archive, method)
    left = [count]

    def counted(*args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    setattr(Archive, method, counted)


if __name__ == "__main__":
    if len(sys.argv) > 3:
        die_after({"exchange": "add_exchange", "result": "add_result"}[sys.argv[3]], int(sys.argv[4]))
    print(play(Path(sys.argv[1]), sys.argv[2]).summary.model_dump_json())

"""A model by function, a target without a compiler, and what a model might write."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from warpsmith.agents.base import Attempt, Situation
from warpsmith.agents.llm.brain import LlmBrain
from warpsmith.agents.llm.memory import Memory
from warpsmith.agents.llm.retrieval import NoRetrieval, Retrieval
from warpsmith.facts import Facts
from warpsmith.llm.chat import question_key
from warpsmith.records import Exchange, Graph, Limit, Region, Role, Task, Usage
from warpsmith.targets.task_header import region_header
from warpsmith.testing import chain_graph, chain_task

LIMIT = Limit(
    seconds=1e-6, least_bytes=256, flops=64, bytes_per_second=1e10, flops_per_second=1e11, bound="memory"
)
FACTS = Facts(
    threads=2, vector=16, bandwidth=1e10, node_us={"n0": 60.0, "n1": 40.0}, total_us=100.0, limit_us=1.0
)
GOOD = """// warpsmith-unit: 1
// family: pointwise   technique: one pass
// tunable: UNROLL = 2 {1, 2, 4}
#include "task.h"
static void unit(const in0_t* in0, out0_t* out0, void* workspace, void* stream) {
  for (int64_t i = 0; i < in0_numel; i++) out0[i] = in0[i];
}
"""
Script = Callable[[Role, str, str, int], str]


class FakeChat:
    """Answers by function; keeps what it was asked."""

    def __init__(self, script: Script, usd: float | None = 0.01) -> None:
        self.script, self.usd = script, usd
        self.asked: list[Exchange] = []

    def ask(self, role: Role, system: str, prompt: str, turn: int = 0) -> Exchange:
        answer = self.script(role, system, prompt, turn)
        exchange = Exchange(
            key=question_key(role, "fake", system, prompt, turn), role=role, model="fake", system=system,
            prompt=prompt, answer=answer, usage=Usage(input_tokens=10, output_tokens=5), usd=self.usd, turn=turn,
        )  # fmt: skip
        self.asked.append(exchange)
        return exchange


class FakeTarget:
    """Only what prompts need of a target."""

    name = "cpu"
    language = "c++"

    def header(self, graph: Graph, region: Region) -> str:
        return region_header(graph, region, 2)

    def build(self, unit: Any, graph: Graph, variant: str) -> Any:
        raise AssertionError("nothing is built here")

    def doctor(self) -> list[Any]:
        return []


def block(source: str) -> str:
    return f"Here it is:\n```cpp\n{source}```\n"


def ideas(*techniques: str, region: Any = 0) -> str:
    return json.dumps(
        [
            {"region": region, "family": "pointwise", "technique": t, "bottleneck": "memory",
             "expected_gain": 1.5, "evidence": ["n0 takes 60 us"]}
            for t in techniques
        ]
    )  # fmt: skip


def situation(attempts: tuple[Attempt, ...] = (), round: int = 0, task: Task | None = None) -> Situation:
    return Situation(task or chain_task(), "cpu", FACTS, LIMIT, attempts, round)


def make_brain(
    script: Script, retrieval: Retrieval | None = None, task: Task | None = None, only_offers: bool = False
) -> tuple[LlmBrain, FakeChat, Memory]:
    chat, memory = FakeChat(script), Memory(retrieval or NoRetrieval(), "cpu")
    return LlmBrain(chat, task or chain_task(), FakeTarget(), memory, only_offers), chat, memory


def whole() -> Region:
    from warpsmith.tasks.regions import make_region

    graph = chain_graph()
    return make_region(graph, [n.name for n in graph.nodes])

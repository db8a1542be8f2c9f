"""A whole run by the expert on a scripted judge: what is measured in one round is acted upon in the next, and told. Nothing is
predicted, so that whatever changes was the evidence's doing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
import torch
from test_planner import graph_of

from warpsmith.agents.compile import CompileAgent
from warpsmith.agents.correctness import CorrectnessAgent
from warpsmith.agents.expert.brain import ExpertBrain
from warpsmith.agents.orchestrator import OrchestratorAgent
from warpsmith.agents.reasoning import ReasoningAgent
from warpsmith.agents.synthesis import SynthesisAgent
from warpsmith.archive import Archive
from warpsmith.config import Config
from warpsmith.facts import Facts
from warpsmith.machine import describe
from warpsmith.records import (
    Budget,
    Candidate,
    Limit,
    Profile,
    RegionProfile,
    Result,
    Task,
    TaskSource,
    Unit,
    Variant,
)
from warpsmith.report import render
from warpsmith.search.loop import Search, Team
from warpsmith.search.meter import Meter
from warpsmith.search.methods import make_methods
from warpsmith.search.tuner import HillClimb
from warpsmith.testing import ScriptedExecutor

LIMIT = Limit(
    seconds=3e-5, least_bytes=6 << 20, flops=1 << 20, bytes_per_second=2e10, flops_per_second=1e11,
    bound="memory",
)  # fmt: skip
COARSE = 16384  # the grain at which one thread does nearly all, as this judge has it


class ScriptedJudge(ScriptedExecutor):
    """Units are slow and their threads uneven at the coarse grain, else quicker and even."""

    def __init__(self) -> None:
        super().__init__(lambda c: sum(1.2 if u.values.get("GRAIN") == COARSE else 1.6 for u in c.units))

    def run(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        for candidate, result in zip(candidates, super().run(candidates), strict=True):
            profile = Profile(regions=tuple(_seen(u) for u in candidate.units))
            yield result.model_copy(update={"profile": profile})


def _seen(unit: Unit) -> RegionProfile:
    coarse = unit.values.get("GRAIN") == COARSE
    return RegionProfile(
        region=unit.region.id, seconds=50e-6 if coarse else 30e-6, least_bytes=6 << 20, flops=1 << 20,
        limit_share=0.65 if coarse else 0.8, bottleneck="memory", family=unit.family,
        technique=unit.technique, values=unit.values, flags=unit.flags, threads=2,
        balance=0.52 if coarse else 0.98, register_bits=512, vector_bits=512, vector_share=0.9,
    )  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Search, Archive]:
    """Two rounds on a softmax, kept in an archive as the pipeline keeps them."""
    graph = graph_of(lambda x, y: torch.softmax(x * y, -1), torch.randn(512, 1024), torch.randn(512, 1024))
    source = TaskSource(kind="memory", path="softmax")
    task = Task(name="softmax", source=source, variants=(Variant(name="main", overrides={}, graph=graph),))
    facts = Facts(
        threads=2, vector=16, bandwidth=2e10, node_us={n.name: 50.0 for n in graph.nodes}, total_us=100.0
    )
    archive, brain = Archive(tmp_path_factory.mktemp("run") / "a.db"), ExpertBrain()
    here = describe()
    archive.begin_run("run1", task, "cpu", 7, {}, here)
    archive.note_run("run1", (), LIMIT)
    team = Team(
        ReasoningAgent(brain), SynthesisAgent(brain), CompileAgent(brain), CorrectnessAgent(brain),
        OrchestratorAgent(branches=3, variants=1, patience=9, near_limit=2.0), HillClimb(),
    )  # fmt: skip
    search = Search(
        task, "cpu", facts, LIMIT, team, ScriptedJudge(), Meter(Budget(evaluations=14, seconds=None)),
        lambda a: archive.add_result(
            "run1", a.candidate, a.result.model_copy(update={"environment": here.id}), a.hypothesis
        ),
        seed=7, methods=make_methods(Config(without=("edit", "tune", "predict"))),
    )  # fmt: skip
    search.run()
    return search, archive


def test_the_second_round_acts_on_what_the_first_measured(run: tuple[Search, Archive]) -> None:
    search, _ = run
    first = [a for a in search.attempts if a.candidate.lineage.round == 0]
    assert all(u.values["GRAIN"] == COARSE for a in first for u in a.candidate.units)
    rewritten = [a for a in search.attempts if a.candidate.lineage.operator == "rewrite"]
    chosen = [a.hypothesis for a in rewritten if a.hypothesis and a.hypothesis.values["GRAIN"] < COARSE]
    assert chosen
    assert any(
        "share the work unevenly" in line and "GRAIN 16384→4096" in line for line in chosen[0].evidence
    )
    best = search.situation().best
    assert best is not None
    assert all(u.values["GRAIN"] < COARSE for u in best.candidate.units)


@pytest.mark.parametrize("format", ["text", "markdown", "html"])
def test_the_report_of_the_run_tells_why(run: tuple[Search, Archive], format: str) -> None:
    _, archive = run
    text = " ".join(render(archive, "run1", format).replace("\\", "").split())
    at = text.index("What was tried, why, and what it taught")
    for wanted in (
        "(round 0, seed", "ATen takes 100 us for them", "threads balanced 52%",
        "threads share the work unevenly", "step ", "(round 1, rewrite", "therefore GRAIN 16384→4096",
        "threads balanced 98%",
    ):  # fmt: skip
        found = text.find(wanted, at)
        assert found >= 0, wanted
        at = found

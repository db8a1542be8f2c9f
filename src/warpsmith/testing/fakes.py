"""Small fakes that stand in for a task, a brain and a judge, so that search code is tested in milliseconds, without torch or a compiler."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..agents.base import Situation
from ..facts import Facts
from ..records import (
    Candidate,
    Check,
    Diagnostic,
    Graph,
    GraphInput,
    GraphOutput,
    Hypothesis,
    Node,
    Ratio,
    Region,
    RegionProfile,
    Result,
    Task,
    TaskSource,
    TensorSpec,
    Timing,
    Tunable,
    Unit,
    Value,
    Variant,
    Verdict,
)


def chain_graph(
    ops: Sequence[str] = ("aten.exp.default", "aten.neg.default"), shape: tuple[int, ...] = (4, 8)
) -> Graph:
    """x → op → op → …, one float32 tensor all the way; node and value i is named `n<i>`."""
    stride = tuple(int(s) for s in _strides(shape))
    spec = TensorSpec(shape=shape, dtype="float32", stride=stride)
    nodes = tuple(
        Node(
            name=f"n{i}", op=op, args=({"v": f"n{i - 1}" if i else "x"},), kwargs={},
            outputs=(Value(name=f"n{i}", spec=spec),), flops=spec.numel,
        )
        for i, op in enumerate(ops)
    )  # fmt: skip
    last = nodes[-1].name
    return Graph(
        inputs=(GraphInput(name="x", spec=spec, role="input", target="x"),), nodes=nodes,
        outputs=(GraphOutput(value=last),), tree="0",
    )  # fmt: skip


def chain_task(ops: Sequence[str] = ("aten.exp.default", "aten.neg.default")) -> Task:
    graph = chain_graph(ops)
    return Task(
        name="chain",
        source=TaskSource(kind="memory", path="chain"),
        variants=(Variant(name="main", overrides={}, graph=graph),),
    )


def chain_region(graph: Graph, first: int, last: int) -> Region:
    """Nodes `first` to `last` of a chain."""
    nodes = tuple(n.name for n in graph.nodes[first : last + 1])
    return Region(
        nodes=nodes, inputs=(graph.nodes[first].uses[0],), outputs=(nodes[-1],), signature="/".join(nodes)
    )


def _strides(shape: tuple[int, ...]) -> list[int]:
    strides: list[int] = []
    step = 1
    for n in reversed(shape):
        strides.insert(0, step)
        step *= n
    return strides


class FakeBrain:
    """Ideas `a`, `b`, … for each node of a chain; units with two tunables. Plays every role."""

    def __init__(self, techniques: Sequence[str] = ("a", "b", "c")) -> None:
        self.techniques = tuple(techniques)

    def plans(self, graph: Graph, facts: Facts) -> list[tuple[Region, ...]]:
        return [tuple(chain_region(graph, i, i) for i in range(len(graph.nodes)))]

    def hypotheses(self, situation: Situation, k: int) -> list[Hypothesis]:
        return [
            Hypothesis(
                region=region, family="fake", technique=technique, bottleneck="memory", expected_gain=1.5,
                evidence=(f"{technique} on {region.nodes[0]}",),
            )
            for technique in self.techniques
            for region in self.plans(situation.graph, situation.facts)[0]
        ][:k]  # fmt: skip

    def write_units(
        self, graph: Graph, hypothesis: Hypothesis, m: int, situation: Situation | None = None
    ) -> list[Unit]:
        tunables = (
            Tunable(name="UNROLL", domain=(1, 2, 4), value=1),
            Tunable(name="BLOCK", domain=(64, 128), value=64),
        )
        return [
            Unit(
                region=hypothesis.region, language="c++", tunables=tunables,
                source=f"// {hypothesis.technique}\n{hypothesis.technique}(UNROLL, BLOCK);",
                family=hypothesis.family, technique=hypothesis.technique,
            )
        ][:m]  # fmt: skip

    def repair_build(self, unit: Unit, diagnostics: Sequence[Diagnostic]) -> Unit | None:
        return (
            unit.model_copy(update={"source": unit.source + " mended"})
            if "mended" not in unit.source
            else None
        )

    def flag_variants(self, unit: Unit, seen: RegionProfile | None = None) -> list[tuple[str, ...]]:
        return [("-funroll-loops",)]

    def review(self, unit: Unit) -> list[str]:
        return ["says evil"] if "evil" in unit.source else []

    def repair_wrong(self, graph: Graph, unit: Unit, rule: str, family: str) -> Hypothesis | None:
        return None

    def mend(self, unit: Unit, result: Result) -> Unit | None:
        return None


class ScriptedExecutor:
    """A judge by formula: `speed(candidate)` is the speedup, or a string that names a failure's status."""

    def __init__(self, speed: Callable[[Candidate], float | str]) -> None:
        self.speed = speed
        self.judged: list[Candidate] = []
        self.screened: list[Candidate] = []

    def run(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        for candidate in candidates:
            self.judged.append(candidate)
            yield scripted_result(candidate, self.speed(candidate))

    def screen(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        for candidate in candidates:
            self.screened.append(candidate)
            yield scripted_screening(candidate, self.speed(candidate))

    def confirm(self, candidate: Candidate) -> Result:
        result = scripted_result(candidate, self.speed(candidate))
        if result.timing is None:
            return result
        return result.model_copy(update={"timing": result.timing.model_copy(update={"confirmed": True})})

    def remeasure(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        for candidate in candidates:
            yield scripted_result(candidate, self.speed(candidate))

    def wait_until_quiet(self, seconds: float) -> bool:
        return True


def chain_candidate(technique: str, source: str = "") -> Candidate:
    """One unit for the first two nodes of `chain_task`; what it is called tells it from others."""
    task = chain_task()
    unit = Unit(
        region=chain_region(task.graph, 0, 1), language="c++", source=source or f"// {technique}", technique=technique
    )  # fmt: skip
    return Candidate(task_id=task.id, target="cpu", units=(unit,))


def scripted_result(
    candidate: Candidate, outcome: float | str, environment: str = "", confirmed: bool = False
) -> Result:
    """A Result as a judge would give it: a speedup with a 2% interval, or a failure of the given status."""
    common = {
        "candidate_id": candidate.id, "content_key": candidate.content_key, "task_id": candidate.task_id,
        "target": candidate.target, "environment": environment,
    }  # fmt: skip
    if isinstance(outcome, str):
        where = candidate.units[0].region.id
        check = Check(variant="main", family="own", where=where, ok=False, rule="budget")
        verdict = (
            Verdict(correct=False, checks=(check,), reasons=("wrong",)) if outcome == "incorrect" else None
        )
        return Result.model_validate({**common, "status": outcome, "reason": outcome, "verdict": verdict})
    unit_us = {u.region.id: 50 / outcome for u in candidate.units}
    timing = make_timing(outcome).model_copy(update={"unit_us": unit_us, "confirmed": confirmed})
    return Result.model_validate(
        {**common, "status": "ok", "verdict": Verdict(correct=True, checks=()), "timing": timing}
    )


def make_timing(speedup: float) -> Timing:
    """Make the timing of a speedup over an eager that takes 100 microseconds, with an interval of 2% either way."""
    ratio = Ratio(baseline="eager", median=speedup, low=0.98 * speedup, high=1.02 * speedup)
    return Timing(
        median_us=100 / speedup, low_us=98 / speedup, high_us=102 / speedup, cache="cold", samples=10, ratios=(ratio,),
        limit_share=0.1 * speedup,
    )  # fmt: skip


def scripted_screening(candidate: Candidate, outcome: float | str) -> Result:
    """Make the result of screening: an estimate of a speedup, or a failure of the given status."""
    result = scripted_result(candidate, outcome)
    if result.timing is None:
        return result
    estimate = result.timing.ratios[0].model_copy(update={"low": result.timing.ratios[0].median / 1.25})
    timing = result.timing.model_copy(update={"ratios": (), "estimate": estimate, "samples": 0})
    update = {"status": "screened", "reason": "screened only", "verdict": None, "timing": timing}
    return Result.model_validate(dict(result) | update)

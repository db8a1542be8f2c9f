"""The rewritten reference: put together from what units state, refused where it does not fit, timed and checked like
any baseline, and never to a candidate's advantage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from warpsmith.errors import TaskError
from warpsmith.facts import local_facts
from warpsmith.judge.judge import Judge
from warpsmith.judge.timing.bench import BaselineLost
from warpsmith.judge.timing.rewritten_reference import REWRITTEN, rewritten_graph
from warpsmith.kernels.collapse.cpp_collapse import CppCollapse
from warpsmith.records import Candidate, Graph, Node, Task, TensorSpec, Unit, Value
from warpsmith.tasks.regions import make_region
from warpsmith.testing import chain_graph, chain_region

TASK = """
import torch
import torch.nn as nn
ROWS = 200
DIM = 300
FEATURES = 400
VARIANTS = {"ragged": {"ROWS": 5, "DIM": 67, "FEATURES": 33}}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(DIM, FEATURES)
    def forward(self, x):
        return torch.sigmoid(self.linear(x).mean(1) * 30.0)
def get_inputs():
    return [torch.randn(ROWS, DIM)]
def get_init_inputs():
    return []
"""


class TestForm:
    """Of a chain x → n0 → n1 → n2, whose middle is rewritten."""

    graph = chain_graph(("aten.exp.default", "aten.neg.default", "aten.exp.default"))
    region = chain_region(graph, 1, 1)

    def rewrite(self, **changes: object) -> Graph:
        """The region's own node, as a graph of its own."""
        (given,), node = self.region.inputs, self.graph.by_name[self.region.nodes[0]]
        spec = self.graph.specs[given]
        inputs = (self.graph.inputs[0].model_copy(update={"name": given, "spec": spec}),)
        outputs = (self.graph.outputs[0].model_copy(update={"value": self.region.outputs[0]}),)
        return Graph(inputs=inputs, nodes=(node,), outputs=outputs, tree="[0]").model_copy(update=changes)

    def unit(self, rewrite: Graph | None, technique: str = "algebraic-x") -> Unit:
        return Unit(region=self.region, language="c++", source="//", technique=technique, rewrite=rewrite)

    def test_the_region_gives_way_to_its_rewrite(self) -> None:
        renamed = self.rewrite().nodes[0].model_copy(update={"name": "another"})
        made = rewritten_graph(self.graph, [self.unit(self.rewrite(nodes=(renamed,)))])
        assert made is not None
        names = [n.name for n in self.graph.nodes]
        assert [n.name for n in made.nodes] == [names[0], "another", names[2]]
        assert (made.inputs, made.outputs) == (self.graph.inputs, self.graph.outputs)

    def test_only_what_is_stated_by_an_algebraic_unit_counts(self) -> None:
        assert rewritten_graph(self.graph, []) is None
        assert rewritten_graph(self.graph, [self.unit(None)]) is None
        assert rewritten_graph(self.graph, [self.unit(self.rewrite(), technique="two-pass")]) is None

    def test_it_must_make_what_the_region_makes(self) -> None:
        node = self.rewrite().nodes[0]
        spec = TensorSpec(shape=(1,), dtype="float32", stride=(1,))
        smaller = node.model_copy(update={"outputs": (Value(name=node.output.name, spec=spec),)})
        for nodes in ((smaller,), ()):
            with pytest.raises(TaskError, match="does not make"):
                rewritten_graph(self.graph, [self.unit(self.rewrite(nodes=nodes))])

    def test_it_must_read_what_the_region_reads(self) -> None:
        other = self.graph.outputs[0].value
        item = self.rewrite().inputs[0].model_copy(update={"name": other})
        with pytest.raises(TaskError, match="no such input"):
            rewritten_graph(self.graph, [self.unit(self.rewrite(inputs=(item,)))])
        with pytest.raises(TaskError, match="nothing before it makes"):
            rewritten_graph(self.graph, [self.unit(self.rewrite(inputs=()))])

    def test_its_names_must_be_its_own(self) -> None:
        node = self.rewrite().nodes[0]
        first = self.graph.nodes[0].output
        again = node.model_copy(update={"name": "another", "outputs": (first,)})
        with pytest.raises(TaskError, match="a name twice"):
            rewritten_graph(self.graph, [self.unit(self.rewrite(nodes=(again, node)))])


@pytest.fixture(scope="module")
def judge(open_judge: Callable[..., Any]) -> Iterator[Judge]:
    with open_judge(TASK) as judge:
        yield judge


def written(task: Task) -> Unit:
    """The expert's own unit over the whole graph."""
    family, region = CppCollapse(), make_region(task.graph, [n.name for n in task.graph.nodes])
    return family.write(task.graph, region, family.techniques(task.graph, region, local_facts())[0])


@pytest.mark.slow
@pytest.mark.alone
class TestConfirmation:
    def candidate(self, judge: Judge, **changes: object) -> Candidate:
        unit = written(judge.task).model_copy(update=changes)
        return Candidate(task_id=judge.task.id, target="cpu", units=(unit,))

    def dropped(self, judge: Judge, **changes: Node) -> str:
        """Why a rewrite with other first or last nodes is dropped, at the beginning of a confirmation."""
        right = written(judge.task).rewrite
        assert right is not None
        first, *others, last = right.nodes
        nodes = (changes.get("first", first), *others, changes.get("last", last))
        judge._fresh_values()
        judge._time_rewritten(self.candidate(judge, rewrite=right.model_copy(update={"nodes": nodes})))
        timing = judge.bench.pool.timings[REWRITTEN]
        assert not timing.ok
        with pytest.raises(BaselineLost):
            judge.bench.pool.process(REWRITTEN)
        judge.bench.pool.drop_rewritten()
        return timing.reason

    def test_it_is_timed_beside_the_others_and_counts(self, judge: Judge) -> None:
        result = judge.confirm(self.candidate(judge))
        assert result.status == "ok", result.reason
        assert REWRITTEN not in judge.bench.pool.timings, "it belongs to one candidate"
        timing = result.timing
        assert timing is not None
        assert timing.rewritten is not None
        assert timing.rewritten.ok, timing.rewritten.reason
        over, over_eager = timing.ratio(REWRITTEN), timing.ratio("eager")
        assert over is not None
        assert over_eager is not None
        assert timing.best is over
        assert over.median < over_eager.median

    def test_one_that_is_wrong_is_dropped(self, judge: Judge) -> None:
        last = written(judge.task).rewrite.nodes[-1]
        wrong = last.model_copy(update={"op": "aten.tanh.default"})
        assert "other values" in self.dropped(judge, last=wrong)

    def test_one_that_does_not_run_is_dropped(self, judge: Judge) -> None:
        first = written(judge.task).rewrite.nodes[0]
        broken = first.model_copy(update={"op": "aten.no_such_operation.default"})
        assert "no_such_operation" in self.dropped(judge, first=broken)

    def test_one_that_does_not_fit_is_dropped(self, judge: Judge) -> None:
        first = written(judge.task).rewrite.nodes[0]
        assert "does not make" in self.dropped(judge, last=first)

    def test_no_other_candidate_pays_for_it(self, judge: Judge) -> None:
        judge._fresh_values()
        for other in (self.candidate(judge, technique="two-pass"), self.candidate(judge, rewrite=None)):
            judge._time_rewritten(other)
            assert REWRITTEN not in judge.bench.pool.timings

    def test_it_survives_the_loss_of_a_baseline(self, judge: Judge) -> None:
        judge._fresh_values()
        judge._time_rewritten(self.candidate(judge))
        first = judge.bench.pool.timings[REWRITTEN]
        judge.bench.pool.restart(fresh_values=judge._next_values)
        assert judge.bench.pool.timings[REWRITTEN].ok
        assert judge.bench.pool.timings[REWRITTEN] is not first
        assert judge.bench.pool.process(REWRITTEN).worker.alive
        judge.bench.pool.drop_rewritten()

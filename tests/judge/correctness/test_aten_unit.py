"""Units in ATen through the judge: right ones pass and are labelled, wrong ones and what they may not be do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from warpsmith.errors import TaskError
from warpsmith.facts import Facts
from warpsmith.judge.correctness.stepping import check_layout, check_stated
from warpsmith.judge.judge import Judge
from warpsmith.judge.timing.rewritten_reference import rewritten_graph
from warpsmith.kernels.fold.fold import FOLD
from warpsmith.kernels.library.library import LIBRARY
from warpsmith.records import Candidate, Graph, GraphOutput, Node, TensorSpec, Unit
from warpsmith.runtime.rewrites import forbidden
from warpsmith.tasks.regions import make_region
from warpsmith.testing import chain_graph

TASK = """
import torch
import torch.nn as nn
BATCH = 2
CHANNELS = 8
SIZE = 20
VARIANTS = {"ragged": {"SIZE": 13, "CHANNELS": 5}}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, CHANNELS, 3, bias=False)
        self.norm = nn.BatchNorm2d(CHANNELS)
        nn.init.uniform_(self.norm.running_var, 0.5, 2.0)
        nn.init.uniform_(self.norm.running_mean, -1.0, 1.0)
        self.eval()
    def forward(self, x):
        return torch.sigmoid(self.norm(self.conv(x)))
def get_inputs():
    return [torch.randn(BATCH, 3, SIZE, SIZE)]
def get_init_inputs():
    return []
"""


class TestStated:
    """Operations that a unit states, before and after they run."""

    graph = chain_graph(("aten.exp.default", "aten.neg.default"))
    given, made = graph.inputs[0].name, str(graph.outputs[0].value)

    def check(self, *ops: str) -> None:
        stated = chain_graph(ops)
        check_stated(stated, self.graph.specs, [self.given], [self.made])

    def test_what_fits_passes(self) -> None:
        self.check("aten.neg.default", "aten.exp.default")

    def test_another_shape_is_refused(self) -> None:
        with pytest.raises(TaskError, match=r"is torch.float32\[\]"):
            self.check("aten.exp.default", "aten.sum.default")

    def test_what_is_not_on_the_list_does_not_run(self) -> None:
        with pytest.raises(TaskError, match="not one of the operations"):
            self.check("aten.exp.default", "aten.rand_like.default")

    def test_far_more_bytes_than_the_task_has(self) -> None:
        stated = chain_graph(("aten.expand.default", "aten.exp.default"))
        rank = len(self.graph.specs[self.given].shape)
        wide = stated.nodes[0].model_copy(update={"args": (*stated.nodes[0].args, [1 << 40, *[-1] * rank])})
        large = stated.model_copy(update={"nodes": (wide, *stated.nodes[1:])})
        with pytest.raises(TaskError, match="more bytes"):
            check_stated(large, self.graph.specs, [self.given], [self.made])

    def test_new_memory_in_another_shape_is_an_output_and_an_operands_is_not(self) -> None:
        def flat(*ops: str) -> Graph:
            graph = chain_graph(ops)
            last = graph.nodes[-1].model_copy(update={"args": (*graph.nodes[-1].args, [-1])})
            return graph.model_copy(update={"nodes": (*graph.nodes[:-1], last)})

        assert forbidden(flat("aten.exp.default", "aten.reshape.default")) == ""
        assert "memory of its own" in forbidden(flat("aten.reshape.default"))
        assert "memory of its own" in forbidden(flat("aten.exp.default", "aten.expand.default"))

    def test_two_outputs_may_not_share_memory(self) -> None:
        graph = chain_graph(("aten.exp.default", "aten.reshape.default"))
        first, last = (n.output.name for n in graph.nodes)
        both = graph.model_copy(update={"outputs": tuple(GraphOutput(value=v) for v in (first, last))})
        assert "memory of its own" in forbidden(both)

    def test_another_layout_is_refused(self) -> None:
        spec = TensorSpec(shape=(2, 3), dtype="float32", stride=(3, 1))
        check_layout({"y": torch.zeros(2, 3)}, {"y": spec})
        with pytest.raises(TaskError, match="strides"):
            check_layout({"y": torch.zeros(3, 2).t()}, {"y": spec})


@pytest.fixture(scope="module")
def judge(open_judge: Callable[..., Any]) -> Iterator[Judge]:
    with open_judge(TASK) as judge:
        yield judge


@pytest.mark.slow
@pytest.mark.alone  # its timing must count
class TestJudged:
    def unit(self, graph: Graph, change: Callable[[Node], Node] = lambda node: node) -> Unit:
        """The expert's fold; `change` is done to each node of it."""
        first = next(n for n in graph.nodes if FOLD.covers(graph, n))
        region = make_region(graph, FOLD.cut(graph, first))
        unit = FOLD.write(graph, region, FOLD.techniques(graph, region, Facts(threads=2))[0])
        assert unit.rewrite is not None
        changed = unit.rewrite.model_copy(update={"nodes": tuple(map(change, unit.rewrite.nodes))})
        return unit.model_copy(update={"rewrite": changed})

    def judged(self, judge: Judge, **changes: Callable[[Node], Node]) -> Any:
        unit = self.unit(judge.task.graph, **changes)
        return next(judge.evaluate([Candidate(task_id=judge.task.id, target="cpu", units=(unit,))]))

    def test_a_fold_is_verified_on_every_variant_and_timed_as_deployed(self, judge: Judge) -> None:
        result = self.judged(judge)
        assert (result.status, result.reason) == ("ok", "")
        assert result.verdict.labels[:2] == ("algorithmic", "general")
        assert {c.variant for c in result.verdict.checks} == {v.name for v in judge.task.variants}
        assert len({c.family for c in result.verdict.checks}) > 2
        assert [r.family for r in result.profile.regions] == ["fold"]
        assert {(b.ok, b.library) for b in result.builds} == {(True, "")}
        assert result.timing.median_us > 0
        assert rewritten_graph(judge.task.graph, [self.unit(judge.task.graph)]) is None

    def test_a_library_alternative_is_verified_on_every_variant_and_labelled_library(
        self, judge: Judge
    ) -> None:
        graph = judge.task.graph
        region = make_region(graph, LIBRARY.cut(graph)[0])
        (technique,) = LIBRARY.techniques(graph, region, Facts(threads=2))
        unit = LIBRARY.write(graph, region, technique)
        result = next(judge.evaluate([Candidate(task_id=judge.task.id, target="cpu", units=(unit,))]))
        assert (result.status, result.reason) == ("ok", "")
        assert result.verdict.labels[0] == "library"
        assert {c.variant for c in result.verdict.checks} == {v.name for v in judge.task.variants}

    def test_wrong_values_are_incorrect(self, judge: Judge) -> None:
        def without_variance(node: Node) -> Node:
            return node.model_copy(update={"op": "aten.neg.default"}) if "rsqrt" in node.op else node

        result = self.judged(judge, change=without_variance)
        assert (result.status, result.verdict.correct) == ("incorrect", False)
        assert result.verdict.failed.rule == "budget"

    def test_shapes_of_the_main_variant_only_are_refused(self, judge: Judge) -> None:
        """A view that says how many channels there are."""

        def with_sizes(node: Node) -> Node:
            literal = ({**node.args[0]}, [8, 1, 1, 1])
            return node.model_copy(update={"args": literal}) if "view" in node.op else node

        result = self.judged(judge, change=with_sizes)
        assert result.status == "refused"
        assert "the unit's operations" in result.reason

    def test_what_is_not_on_the_list_is_refused_before_it_runs(self, judge: Judge) -> None:
        def stale(node: Node) -> Node:
            own = {"op": "aten.empty_like.default", "args": node.args[:1]}
            return node.model_copy(update=own) if "convolution" in node.op else node

        result = self.judged(judge, change=stale)
        assert (result.status, result.verdict) == ("refused", None)
        assert "aten.empty_like.default is not one" in result.reason

    def test_what_does_not_fit_the_region_is_refused(self, judge: Judge) -> None:
        graph = judge.task.graph

        def clashing(node: Node) -> Node:
            return node.model_copy(update={"name": graph.nodes[-1].name}) if "rsqrt" in node.op else node

        result = self.judged(judge, change=clashing)
        assert result.status == "refused"
        assert "a name twice" in result.reason

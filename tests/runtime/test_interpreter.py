"""The interpreter: what it computes, in which precision, what it frees and what it refuses."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.errors import TaskError
from warpsmith.records import Graph, GraphInput, GraphOutput, Node, TensorSpec, Value
from warpsmith.runtime.interpreter import aten_op, decode, plan, run_graph

SPEC = TensorSpec(shape=(4,), dtype="float32", stride=(1,))


def node(name: str, op: str, *args: object, **kwargs: object) -> Node:
    return Node(name=name, op=op, args=args, kwargs=kwargs, outputs=(Value(name=name, spec=SPEC),))


def chain(*nodes: Node) -> Graph:
    entry = GraphInput(name="x", spec=SPEC, role="input", target="x")
    return Graph(inputs=(entry,), nodes=nodes, outputs=(GraphOutput(value=nodes[-1].name),), tree="0")


def test_native_and_oracle_precision() -> None:
    graph = chain(
        node("a", "aten.exp.default", {"v": "x"}),
        node("b", "aten._to_copy.default", {"v": "a"}, dtype={"dtype": "float32"}),
        node("c", "aten.add.Tensor", {"v": "b"}, {"v": "a"}, alpha=3),
    )
    x = torch.tensor([0.1, 1.0, -2.0, 5.0])
    native, oracle = run_graph(graph, {"x": x})["c"], run_graph(graph, {"x": x}, float64=True)["c"]
    assert (native.dtype, oracle.dtype) == (torch.float32, torch.float64)
    exact = 4 * torch.tensor([math.exp(v) for v in x.tolist()], dtype=torch.float64)
    torch.testing.assert_close(oracle, exact, rtol=1e-15, atol=0)
    assert (native.double() - exact).abs().max() > 1e-8  # float32 all the way, not the oracle rounded


def test_wanted_values_run_only_what_they_need() -> None:
    graph = chain(
        node("a", "aten.exp.default", {"v": "x"}),
        node("bad", "aten.mm.default", {"v": "x"}, {"v": "x"}),
        node("b", "aten.neg.default", {"v": "a"}),
    )
    got = run_graph(graph, {"x": torch.zeros(4)}, wanted={"b", "x"})
    assert set(got) == {"b", "x"}
    assert got["b"].tolist() == [-1.0] * 4
    assert [(n.name, dead) for n, dead in plan(graph, {"b"})] == [("a", ["x"]), ("b", ["a"])]
    with pytest.raises(TaskError, match="no value 'zzz'"):
        run_graph(graph, {"x": torch.zeros(4)}, wanted={"zzz"})


def test_missing_input_is_named() -> None:
    with pytest.raises(TaskError, match="needs the value 'x'"):
        run_graph(chain(node("a", "aten.exp.default", {"v": "x"})), {})


@pytest.mark.parametrize(
    "op",
    [
        "aten.add_.Tensor",
        "aten.from_file.default",
        "prims.exp.default",
        "aten.no.default",
        "aten.add",
        "os.system.x",
    ],
)
def test_only_functional_aten_ops_are_found(op: str) -> None:
    with pytest.raises(TaskError):
        aten_op(op)


@given(
    st.one_of(
        st.integers(-(2**40), 2**40),
        st.booleans(),
        st.none(),
        st.floats(allow_nan=False),
        st.text(max_size=4),
    )
)
def test_plain_arguments_decode_to_themselves(value: object) -> None:
    assert decode([value, [value]], {}) == [value, [value]]


def test_tagged_arguments() -> None:
    assert decode({"f": "-inf"}, {}) == -math.inf
    assert math.isnan(decode({"f": "nan"}, {}))
    assert decode({"dtype": "bfloat16"}, {}) is torch.bfloat16
    assert decode({"dtype": "bfloat16"}, {}, True) is torch.float64
    assert decode({"dtype": "int64"}, {}, True) is torch.int64
    assert decode({"memory_format": "contiguous_format"}, {}) is torch.contiguous_format
    for bad in ({"dtype": "nn"}, {"eval": "1"}, {"f": "1", "v": "x"}):
        with pytest.raises(TaskError):
            decode(bad, {})

"""Regions that compute the same on the same shapes are twins, whatever their values are named."""

from __future__ import annotations

from warpsmith.records import Graph, GraphInput, GraphOutput, Node, TensorSpec, Value
from warpsmith.tasks.regions import make_region
from warpsmith.tasks.twins import find_twins

WIDE, NARROW = (
    TensorSpec(shape=(8, n), dtype="float32", stride=(n, 1)) for n in (32, 16)
)  # spec of the layers


def make_node(name: str, op: str, args: tuple[object, ...], spec: TensorSpec) -> Node:
    return Node(name=name, op=f"aten.{op}", args=args, kwargs={}, outputs=(Value(name=name, spec=spec),))


def make_layer(number: int, before: str, factor: float = 2.0, spec: TensorSpec = WIDE) -> list[Node]:
    """relu(x) * factor + x."""
    relu, mul, add = (f"{n}_{number}" for n in ("relu", "mul", "add"))
    return [
        make_node(relu, "relu.default", ({"v": before},), spec),
        make_node(mul, "mul.Tensor", ({"v": relu}, factor), spec),
        make_node(add, "add.Tensor", ({"v": mul}, {"v": before}), spec),
    ]


def make_graph(*layers: list[Node], spec: TensorSpec = WIDE) -> Graph:
    nodes = tuple(node for layer in layers for node in layer)
    x = GraphInput(name="x", spec=spec, role="input", target="x")
    return Graph(inputs=(x,), nodes=nodes, outputs=(GraphOutput(value=nodes[-1].name),), tree="0")


def list_regions(graph: Graph, *numbers: int):
    return [make_region(graph, [f"{n}_{i}" for n in ("relu", "mul", "add")]) for i in numbers]


def test_equal_layers_are_twins_of_the_first() -> None:
    graph = make_graph(make_layer(0, "x"), make_layer(1, "add_0"), make_layer(2, "add_1"))
    regions = list_regions(graph, 0, 1, 2)
    assert find_twins(graph, regions) == {r.id: regions[0].id for r in regions}
    assert find_twins(graph, regions[::-1]) == {r.id: regions[2].id for r in regions}


def test_another_option_shape_or_wiring_is_another_region() -> None:
    crossed = make_layer(2, "add_1")
    crossed[2] = make_node("add_2", "add.Tensor", ({"v": "add_1"}, {"v": "mul_2"}), WIDE)
    graph = make_graph(make_layer(0, "x"), make_layer(1, "add_0", factor=3.0), crossed)
    twins = find_twins(graph, list_regions(graph, 0, 1, 2))
    assert len(set(twins.values())) == 3
    narrow = make_graph(make_layer(0, "x", spec=NARROW), spec=NARROW)
    wide = make_graph(make_layer(0, "x"))
    forms = {find_twins(g, list_regions(g, 0)) and g.specs["x"].shape for g in (narrow, wide)}
    assert len(forms) == 2


def test_what_a_region_hands_out_counts() -> None:
    """A value inside that somebody else reads is an output, and an output more is another kernel."""
    reader = make_node("neg", "neg.default", ({"v": "relu_1"},), WIDE)
    last = make_node("sum", "add.Tensor", ({"v": "add_1"}, {"v": "neg"}), WIDE)
    graph = make_graph(make_layer(0, "x"), make_layer(1, "add_0"), [reader, last])
    first, second = list_regions(graph, 0, 1)
    assert find_twins(graph, [first, second]) == {first.id: first.id, second.id: second.id}

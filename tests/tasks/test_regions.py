"""Regions: convexity against brute force, boundaries, order, signatures."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.errors import TaskError
from warpsmith.records import Graph, GraphInput, GraphOutput, Node, Region, TensorSpec, Value
from warpsmith.tasks.regions import is_connected, is_convex, make_region, same_region, topological_groups


def spec(*shape: int) -> TensorSpec:
    return TensorSpec(
        shape=shape, dtype="float32", stride=(shape[1], 1) if len(shape) == 2 else (1,) * len(shape)
    )


def build(edges: list[list[int]], shape: tuple[int, ...] = (4, 4), prefix: str = "n") -> Graph:
    """Node k reads the nodes edges[k] (−1: the input); the last node is returned."""
    size = spec(*shape)
    nodes = tuple(
        Node(
            name=f"{prefix}{k}",
            op="aten.add.Tensor" if len(reads) > 1 else "aten.exp.default",
            args=tuple({"v": "x" if r < 0 else f"{prefix}{r}"} for r in reads),
            kwargs={},
            outputs=(Value(name=f"{prefix}{k}", spec=size),),
        )
        for k, reads in enumerate(edges)
    )
    return Graph(
        inputs=(GraphInput(name="x", spec=size, role="input", target="x"),),
        nodes=nodes,
        outputs=(GraphOutput(value=nodes[-1].name),),
        tree="0",
    )


DIAMOND = build([[-1], [0], [0], [1, 2]])
graphs = st.integers(2, 7).flatmap(
    lambda n: st.tuples(*(st.lists(st.integers(-1, k - 1), min_size=1, max_size=2) for k in range(n)))
)


def reaches(graph: Graph, source: str, goal: str) -> bool:
    users = graph.users[source]
    return any(u.name == goal or reaches(graph, u.name, goal) for u in users)


@given(graphs, st.data())
def test_convexity_is_no_path_out_and_in(edges: tuple[list[int], ...], data: st.DataObject) -> None:
    graph = build(list(edges))
    names = [n.name for n in graph.nodes]
    chosen = set(data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True)))
    outside = [n for n in names if n not in chosen]
    leaves_and_returns = any(
        any(reaches(graph, a, o) for a in chosen) and any(reaches(graph, o, b) for b in chosen)
        for o in outside
    )
    assert is_convex(graph, chosen) is not leaves_and_returns


@given(graphs, st.data())
def test_convex_regions_can_always_be_ordered(edges: tuple[list[int], ...], data: st.DataObject) -> None:
    graph = build(list(edges))
    names = [n.name for n in graph.nodes]
    chosen = set(data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True)))
    if not (is_convex(graph, chosen) and is_connected(graph, chosen)):
        return
    steps = topological_groups(graph, [make_region(graph, chosen)])
    ran = [name for s in steps for name in (s.nodes if isinstance(s, Region) else (s.name,))]
    assert sorted(ran) == sorted(names)
    done = {"x"}
    for step in steps:
        assert done.issuperset(step.inputs if isinstance(step, Region) else step.uses)
        done.update(step.nodes if isinstance(step, Region) else (step.name,))


@given(graphs, st.data())
def test_of_what_can_run_the_first_of_the_graph_runs(
    edges: tuple[list[int], ...], data: st.DataObject
) -> None:
    graph = build(list(edges))
    names = [n.name for n in graph.nodes]
    owners = data.draw(st.lists(st.integers(0, 2), min_size=len(names), max_size=len(names)))
    sets = [{n for n, owner in zip(names, owners, strict=True) if owner == number} for number in (1, 2)]
    regions = [make_region(graph, s) for s in sets if s and is_connected(graph, s) and is_convex(graph, s)]
    members = {name: region for region in regions for name in region.nodes}
    waiting = list({id(s): s for s in (members.get(n.name, n) for n in graph.nodes)}.values())
    done, expected = {"x"}, []
    while ready := [s for s in waiting if done.issuperset(s.inputs if isinstance(s, Region) else s.uses)]:
        waiting.remove(ready[0])
        expected.append(ready[0])
        done.update(ready[0].nodes if isinstance(ready[0], Region) else (ready[0].name,))
    if waiting:
        with pytest.raises(TaskError, match="wait for each other"):
            topological_groups(graph, regions)
    else:
        assert topological_groups(graph, regions) == expected


def test_boundary_of_the_diamond() -> None:
    region = make_region(DIAMOND, ["n3", "n1", "n2"])
    assert region.nodes == ("n1", "n2", "n3")
    assert (region.inputs, region.outputs) == (("n0",), ("n3",))
    assert make_region(DIAMOND, ["n0", "n1"]).outputs == ("n0", "n1")  # n0 is also read by n2


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([], "empty"),
        (["nope"], "does not have"),
        (["n0", "n3"], "not connected"),
        (["n0", "n1", "n3"], "not convex"),
    ],
)
def test_refusals(nodes: list[str], words: str) -> None:
    with pytest.raises(TaskError, match=words):
        make_region(DIAMOND, nodes)


def test_overlapping_and_deadlocked_regions_are_refused() -> None:
    whole = make_region(DIAMOND, ["n0", "n1"])
    with pytest.raises(TaskError, match="share the node n0"):
        topological_groups(DIAMOND, [whole, make_region(DIAMOND, ["n0", "n2"])])
    # a→b and c→d with cross edges: each region needs a value of the other
    cross = build([[-1], [-1], [0, 1], [1, 0], [2, 3]])
    one, two = make_region(cross, ["n0", "n2"]), make_region(cross, ["n1", "n3"])
    with pytest.raises(TaskError, match="wait for each other"):
        topological_groups(cross, [one, two])


def test_signature_ignores_names_and_exact_sizes_but_not_structure() -> None:
    signature = make_region(DIAMOND, ["n1", "n2", "n3"]).signature
    renamed = build([[-1], [0], [0], [1, 2]], prefix="other")
    assert make_region(renamed, ["other1", "other2", "other3"]).signature == signature
    near, far = build([[-1], [0], [0], [1, 2]], (5, 7)), build([[-1], [0], [0], [1, 2]], (6, 7))
    assert make_region(near, ["n1"]).signature == make_region(far, ["n1"]).signature
    assert (
        make_region(DIAMOND, ["n1"]).signature != make_region(near, ["n1"]).signature
    )  # power of two or not
    assert make_region(DIAMOND, ["n0", "n1"]).signature != make_region(DIAMOND, ["n1", "n2", "n3"]).signature


def test_same_region_needs_the_same_ops_and_boundary() -> None:
    region = make_region(DIAMOND, ["n1", "n2", "n3"])
    assert same_region(region, build([[-1], [0], [0], [1, 2]], (3, 5)), DIAMOND)
    assert not same_region(region, build([[-1], [0], [0], [1]]), DIAMOND)
    assert not same_region(region, build([[-1], [-1], [0], [1, 2]]), DIAMOND)

"""Derived shapes: which constants are sizes, how they shrink, and which differences make another task."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.errors import TaskError
from warpsmith.records import Graph, GraphInput, GraphOutput, Node, TaskSource, TensorSpec, Value, Variant
from warpsmith.tasks.source import constants, parse
from warpsmith.tasks.variants import derive_variants, op_difference, read_declared_variants

FILE = """
batch_size = 4096
features = 512
kernel_size = 11
num_groups = 8
dim = 1
input_shape = (4096, 1, 1)

def get_inputs():
    return [batch_size, features, kernel_size, dim]

def get_init_inputs():
    return [features, num_groups]
"""


def graph(rows: int, columns: int, scale: float = 2.0, op: str = "aten.mul.Tensor") -> Graph:
    spec = TensorSpec(shape=(rows, columns), dtype="float32", stride=(columns, 1))
    flat = TensorSpec(shape=(rows * columns,), dtype="float32", stride=(1,))
    return Graph(
        inputs=(GraphInput(name="x", spec=spec, role="input", target="x"),),
        nodes=(
            Node(name="a", op=op, args=({"v": "x"}, scale), kwargs={}, outputs=(Value(name="a", spec=spec),)),
            Node(
                name="b",
                op="aten.view.default",
                args=({"v": "a"}, [rows * columns]),
                kwargs={},
                outputs=(Value(name="b", spec=flat),),
            ),
        ),
        outputs=(GraphOutput(value="b"),),
        tree="0",
    )


class FakeHost:
    """Answers exports by a rule on the constants; records what was asked."""

    class _Alive:
        alive = True

    def __init__(self, divisible_by: int = 1) -> None:
        self.source = TaskSource(kind="kernelbench", path="task.py", text=FILE)
        self.worker = self._Alive()
        self.divisible_by, self.asked = divisible_by, []

    def export(self, overrides: dict[str, int]) -> Graph:
        self.asked.append(overrides)
        sizes = {**constants(parse(FILE, "task.py")), **overrides}
        if sizes["features"] % self.divisible_by:
            raise TaskError(f"task.py: {sizes['features']} is not divisible by {self.divisible_by}")
        return graph(sizes["batch_size"], sizes["features"])


MAIN = Variant(name="main", overrides={}, graph=graph(4096, 512))


def test_sizes_shrink_to_primes_and_options_stay() -> None:
    found, note = derive_variants(FakeHost(), parse(FILE, "task.py"), MAIN)  # type: ignore[arg-type]
    assert [v.name for v in found] == ["ragged", "small"]
    assert note == ""
    for variant in found:
        assert set(variant.overrides) == {"batch_size", "features"}
    assert all(all(n % d for d in range(2, n)) for n in found[0].overrides.values())
    assert all(n & (n - 1) == 0 for n in found[1].overrides.values())


def test_sizes_bound_to_the_module_are_left_alone_when_they_must_be() -> None:
    host = FakeHost(divisible_by=8)
    found, _ = derive_variants(host, parse(FILE, "task.py"), MAIN)  # type: ignore[arg-type]
    assert set(found[0].overrides) == {"batch_size"}
    assert host.asked[0].keys() == {"batch_size", "features"}  # tried first


def test_no_variant_says_why() -> None:
    host = FakeHost(divisible_by=10**9)
    assert derive_variants(host, parse(FILE, "task.py"), MAIN)[0] == ()  # type: ignore[arg-type]
    tree = parse("def get_inputs():\n    return []\n", "task.py")
    assert "no module-level integer sizes" in derive_variants(host, tree, MAIN)[1]  # type: ignore[arg-type]


@pytest.mark.parametrize("tries", [0, 1, 3])
def test_a_large_graph_is_exported_a_few_times_only(tries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warpsmith.tasks.variants._EXPORTED", tries * len(MAIN.graph.nodes))
    host = FakeHost(divisible_by=10**9)
    found, note = derive_variants(host, parse(FILE, "task.py"), MAIN)  # type: ignore[arg-type]
    assert (found, len(host.asked)) == ((), tries)
    assert "not divisible" in note or ("too large" in note and not tries)


def test_differences() -> None:
    main = graph(8, 4)
    assert op_difference(main, graph(5, 3)) == ""  # the view's size may differ
    assert "other options" in op_difference(main, graph(8, 4, scale=3.0))
    assert "aten.add.Tensor" in op_difference(main, graph(8, 4, op="aten.add.Tensor"))
    shorter = main.model_copy(update={"nodes": main.nodes[:1]})
    assert "1 ops where the main shape runs 2" in op_difference(main, shorter)


def convolved(channels: int, groups: int, filters: int) -> Graph:
    def spec(*shape: int) -> TensorSpec:
        return TensorSpec(shape=shape, dtype="float32", stride=contiguous(shape))

    given, weight = spec(2, channels, 9, 9), spec(filters, channels // groups, 3, 3)
    args = ({"v": "x"}, {"v": "w"}, None, [1, 1], [1, 1], [1, 1], False, [0, 0], groups)
    made = Value(name="y", spec=spec(2, filters, 9, 9))
    return Graph(
        inputs=tuple(
            GraphInput(name=n, spec=s, role="input", target=n) for n, s in (("x", given), ("w", weight))
        ),
        nodes=(Node(name="y", op="aten.convolution.default", args=args, kwargs={}, outputs=(made,)),),
        outputs=(GraphOutput(value="y"),),
        tree="0",
    )


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(prod(shape[i + 1 :]) for i in range(len(shape)))


def test_the_groups_of_a_depthwise_convolution_are_a_size_others_an_option() -> None:
    depthwise = convolved(64, 64, 128)
    assert op_difference(depthwise, convolved(31, 31, 62)) == ""
    assert op_difference(depthwise, convolved(64, 64, 64)) == ""
    assert "other options" in op_difference(depthwise, convolved(64, 32, 128))
    assert "other options" in op_difference(convolved(64, 4, 128), convolved(64, 8, 128))
    assert "other options" in op_difference(convolved(64, 4, 128), convolved(4, 4, 8))
    assert op_difference(convolved(64, 4, 128), convolved(32, 4, 64)) == ""


def test_declared_variants_must_be_the_same_task() -> None:
    host = FakeHost(divisible_by=2)
    tree = parse('VARIANTS = {"odd": {"batch_size": 3}}', "task.py")
    found = read_declared_variants(host, tree, MAIN)  # type: ignore[arg-type]
    assert found is not None
    assert found[0].graph.specs["x"].shape == (3, 512)
    assert read_declared_variants(host, parse("x = 1", "task.py"), MAIN) is None  # type: ignore[arg-type]
    with pytest.raises(TaskError, match=r"variant .odd. of task\.py: 3 is not"):
        read_declared_variants(host, parse('VARIANTS = {"odd": {"features": 3}}', "t.py"), MAIN)  # type: ignore[arg-type]
    with pytest.raises(TaskError, match="VARIANTS must be a literal dict"):
        read_declared_variants(host, parse("VARIANTS = make()", "t.py"), MAIN)  # type: ignore[arg-type]


@given(st.lists(st.integers(5, 10**6), min_size=1, max_size=6), st.sampled_from([1, 4]))
def test_shrinking_never_grows(values: list[int], divisor: int) -> None:
    from warpsmith.tasks.variants import _make_ragged, _power_of_two

    for shrink in (_make_ragged, _power_of_two):
        new = shrink(values, divisor)
        assert len(new) == len(values)
        assert all(2 <= n < v for n, v in zip(new, values, strict=True))

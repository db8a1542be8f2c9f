import pytest

from warpsmith.judge.roofline.limits import hard_floor, limit, region_limit
from warpsmith.judge.roofline.peaks import Peaks
from warpsmith.records import Graph, GraphInput, GraphOutput, Node, Region, TensorSpec, Value

KIB, GB = 1 << 10, 1e9
PEAKS = Peaks(
    threads=2, read={128 * KIB: 200 * GB, 1 << 26: 20 * GB}, copy_={128 * KIB: 150 * GB, 1 << 26: 25 * GB},
    stream={128 * KIB: 50 * GB, 1 << 26: 40 * GB}, flops=100 * GB, last_cache=32 << 20,
)  # fmt: skip


def spec(*shape: int, dtype: str = "float32") -> TensorSpec:
    stride, step = [], 1
    for n in reversed(shape):
        stride.insert(0, step)
        step *= n
    return TensorSpec(shape=shape, dtype=dtype, stride=tuple(stride))


def node(name: str, op: str, made: TensorSpec, *args: object, flops: int = 0) -> Node:
    return Node(name=name, op=op, args=args, kwargs={}, outputs=(Value(name=name, spec=made),), flops=flops)


def graph(inputs: dict[str, TensorSpec], *nodes: Node) -> Graph:
    return Graph(
        inputs=tuple(GraphInput(name=n, spec=s, role="input", target=n) for n, s in inputs.items()),
        nodes=nodes, outputs=(GraphOutput(value=nodes[-1].name),), tree="0",
    )  # fmt: skip


BIG = spec(4096, 4096)  # 64 MiB
RELU = graph({"x": BIG}, node("y", "aten.relu.default", BIG, {"v": "x"}, flops=1 << 24))


def test_memory_bound_floor_counts_inputs_and_outputs_once():
    found = limit(RELU, PEAKS, cold=False)
    assert (found.bound, found.least_bytes) == ("memory", 128 << 20)
    assert found.seconds == pytest.approx((128 << 20) / (40 * GB))


def test_cold_outputs_may_stay_in_the_cache():
    small = spec(1024, 1024)
    found = limit(graph({"x": small}, node("y", "aten.relu.default", small, {"v": "x"})), PEAKS, cold=True)
    assert found.seconds == pytest.approx(small.nbytes / (40 * GB))


def test_compute_bound_floor():
    square = spec(1024, 1024)
    product = node("y", "aten.mm.default", square, {"v": "a"}, {"v": "b"}, flops=2 << 30)
    found = limit(graph({"a": square, "b": square}, product), PEAKS)
    assert found.bound == "compute"
    assert found.seconds == pytest.approx((2 << 30) / (100 * GB))
    assert (
        hard_floor(found) < found.seconds / 2
    )  # a rewrite may need fewer operations: arithmetic refuses nothing


def test_narrow_types_may_use_matrix_units():
    found = {}
    for dtype in ("bfloat16", "float32"):
        square = spec(1024, 1024, dtype=dtype)
        product = node("y", "aten.mm.default", square, {"v": "a"}, {"v": "b"}, flops=2 << 30)
        found[dtype] = limit(graph({"a": square, "b": square}, product), PEAKS)
    assert found["bfloat16"].seconds < found["float32"].seconds / 10


@pytest.mark.parametrize(
    ("op", "args", "made"),
    [
        ("aten.slice.Tensor", (1, 0, 8), spec(4096, 8)),
        ("aten.select.int", (0, 3), spec(4096)),
        ("aten.embedding.default", (), spec(10, 4096)),
    ],
)
def test_partial_reads_count_what_they_read(op, args, made):
    taken = node("part", op, made, {"v": "x"}, *args)
    found = limit(
        graph({"x": BIG}, taken, node("y", "aten.relu.default", made, {"v": "part"})), PEAKS, cold=False
    )
    assert found.least_bytes == 2 * made.nbytes


def test_views_are_looked_through():
    flat, part = spec(4096 * 4096), spec(100)
    viewed = node("v", "aten.view.default", flat, {"v": "x"}, [4096 * 4096])
    sliced = node("part", "aten.slice.Tensor", part, {"v": "v"}, 0, 0, 100)
    found = limit(
        graph({"x": BIG}, viewed, sliced, node("y", "aten.relu.default", part, {"v": "part"})), PEAKS
    )
    assert found.least_bytes == 2 * part.nbytes


def test_strided_pointwise_convolution_skips_pixels():
    x, w, y = spec(1, 64, 128, 128), spec(64, 64, 1, 1), spec(1, 64, 64, 64)
    conv = node("y", "aten.convolution.default", y, {"v": "x"}, {"v": "w"}, None, [2, 2], [0, 0], [1, 1])
    found = limit(graph({"x": x, "w": w}, conv), PEAKS)
    assert found.least_bytes == x.nbytes // 4 + w.nbytes + y.nbytes


def test_region_counts_its_own_edges():
    both = graph(
        {"x": BIG},
        node("a", "aten.exp.default", BIG, {"v": "x"}),
        node("y", "aten.sum.default", spec(), {"v": "a"}),
    )
    region = Region(nodes=("y",), inputs=("a",), outputs=("y",), signature="")
    assert region_limit(both, region, PEAKS).least_bytes == BIG.nbytes + 4


def test_a_limit_names_the_peaks_that_it_used():
    assert limit(RELU, PEAKS).peaks == PEAKS.used
    assert PEAKS.used.busy, "nobody noted that the machine was quiet"
    quiet = PEAKS.model_copy(update={"quiet": tuple(PEAKS.rates)})
    assert not limit(RELU, quiet).busy
    assert quiet.used.key == PEAKS.used.key != PEAKS.model_copy(update={"flops": 1.0}).used.key

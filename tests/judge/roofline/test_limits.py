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


def attend(mask: bool, causal: bool = False, keys: int = 4096) -> Graph:
    query, cache, seen = spec(2, 8, 1, 64), spec(2, 8, keys, 64), spec(2, 1, 1, keys, dtype="bool")
    args = [{"v": "q"}, {"v": "k"}, {"v": "v"}, {"v": "m"} if mask else None, 0.0, causal]
    return graph(
        {"q": query, "k": cache, "v": cache, "m": seen},
        node("y", "aten.scaled_dot_product_attention.default", query, *args),
    )


def test_nothing_is_refused_for_leaving_out_keys_that_a_mask_hides():
    full, masked = attend(mask=False), attend(mask=True)
    cache = 2 * full.specs["k"].nbytes
    limits = [limit(g, PEAKS) for g in (full, masked)]
    assert all(found.least_bytes > cache for found in limits), "the limit knows no mask's contents"
    assert hard_floor(limits[0], full) == hard_floor(limits[0])
    needed = limits[1].least_bytes - cache
    assert hard_floor(limits[1], masked) == pytest.approx(
        hard_floor(limits[1]) * needed / limits[1].least_bytes
    )


@pytest.mark.parametrize(
    ("op", "args", "made"),
    [
        ("aten.embedding.default", ({"v": "i"},), spec(64, 4096)),
        ("aten.index.Tensor", ([{"v": "i"}],), spec(64, 4096)),
        ("aten._embedding_bag.default", ({"v": "i"}, {"v": "b"}), spec(8, 4096)),
    ],
)
def test_nothing_is_refused_for_reading_a_row_once_that_an_index_names_often(op, args, made):
    index, bags, rows = spec(64, dtype="int64"), spec(8, dtype="int64"), 64 * 4096 * 4
    looked_up = graph({"x": BIG, "i": index, "b": bags}, node("y", op, made, {"v": "x"}, *args))
    found = limit(looked_up, PEAKS)
    others = index.nbytes + made.nbytes + (bags.nbytes if "bag" in op else 0)
    assert found.least_bytes == rows + others, "rows that are named, not the whole table"
    assert hard_floor(found, looked_up) == pytest.approx(hard_floor(found) * others / found.least_bytes)


def test_keys_right_of_a_diagonal_need_not_be_read():
    found = limit(attend(mask=False, causal=True), PEAKS)
    query = spec(2, 8, 1, 64).nbytes
    assert found.least_bytes == 4 * query, "the queries, the first key and value of each head, and the result"


def test_keys_that_are_queries_too_are_read():
    q = spec(2, 8, 64, 64)
    both = graph(
        {"q": q, "m": spec(64, 64, dtype="bool")},
        node(
            "y",
            "aten.scaled_dot_product_attention.default",
            q,
            {"v": "q"},
            {"v": "q"},
            {"v": "q"},
            {"v": "m"},
        ),
    )
    found = limit(both, PEAKS)
    assert hard_floor(found, both) == hard_floor(found)


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


def update(reading: bool) -> Graph:
    """A row is put into a cache that stays an input; `reading`: then all of it is read, under a mask."""
    cache, row, at = spec(2, 8, 4096, 64), spec(2, 8, 1, 64), spec(1, dtype="int64")
    query, seen = spec(2, 8, 1, 64), spec(2, 1, 1, 4096, dtype="bool")
    args = ({"v": "k"}, [None, None, {"v": "at"}], {"v": "row"})
    nodes = [node("new", "aten.index_put.default", cache, *args)]
    attended = [{"v": "q"}, {"v": "new"}, {"v": "new"}, {"v": "m"}]
    nodes += [node("y", "aten.scaled_dot_product_attention.default", query, *attended)] if reading else []
    inputs = {"k": cache, "row": row, "at": at} | ({"q": query, "m": seen} if reading else {})
    updated = GraphOutput(value="new", role="input_update", target="k")
    results = (GraphOutput(value="y"),) if reading else ()
    return graph(inputs, *nodes).model_copy(update={"outputs": (updated, *results)})


def test_of_a_cache_that_takes_a_row_the_row_alone_must_be_written():
    only, attended = limit(update(False), PEAKS), limit(update(True), PEAKS)
    row, at, query, mask = 2 * 8 * 64 * 4, 8, 2 * 8 * 64 * 4, 2 * 4096
    assert only.least_bytes == 2 * row + at, "the row is read and written"
    assert update(False).least_bytes == only.least_bytes + spec(2, 8, 4096, 64).nbytes, (
        "as a graph it is read"
    )
    cache = 2 * 8 * 4096 * 64 * 4
    assert attended.least_bytes == cache + 2 * row + at + 2 * query + mask
    left_out = hard_floor(attended, update(True)) / hard_floor(attended)
    assert left_out == pytest.approx(1 - cache / attended.least_bytes), "the mask may hide all of it"


def test_a_cache_that_is_returned_too_is_written_whole():
    both = update(False)
    returned = both.model_copy(update={"outputs": (*both.outputs, GraphOutput(value="new"))})
    cache = 2 * 8 * 4096 * 64 * 4
    assert limit(returned, PEAKS).least_bytes == 2 * cache + 2 * 8 * 64 * 4 + 8

"""CUDA units of the expert: their arithmetic on the CPU by `cuda_host`, against float64; with nvcc, that they build."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from cuda_bench import FACTS, CudaBench, DeviceTarget

from warpsmith.agents.expert.brain import (
    ExpertBrain,
    flag_variants,
    hypotheses,
    plans,
    repair_wrong,
    write_units,
)
from warpsmith.agents.expert.review import review
from warpsmith.codegen.cuda.cuda_source import WAITS
from warpsmith.records import Graph, Unit
from warpsmith.search.tuner import at_other_values, with_values
from warpsmith.targets.cuda import CudaTarget

Case = tuple[Callable[..., object], Callable[[], tuple[torch.Tensor, ...]]]
R = torch.randn


def _targets(rows: int, classes: int) -> torch.Tensor:
    return torch.arange(rows) * 7 % classes


def exclusive(x: torch.Tensor) -> torch.Tensor:
    return torch.cumsum(F.pad(x, (1, 0)), 1)[:, :-1]


def backwards(x: torch.Tensor) -> torch.Tensor:
    return torch.flip(torch.cumsum(torch.flip(x, [1]), 1), [1])


def last(x: torch.Tensor) -> torch.Tensor:
    return x.contiguous(memory_format=torch.channels_last)


QUICK: dict[str, Case] = {
    "bias": (lambda x, y: F.gelu(x + y), lambda: (R(5, 6, 7, 8), R(6, 1, 1))),
    "softmax": (lambda x: F.softmax(x, -1), lambda: (R(7, 3000),)),
    "layer norm of few long rows": (
        lambda x, w, b: F.layer_norm(x, (4, 40, 40), w, b), lambda: (R(2, 4, 40, 40), R(4, 40, 40), R(4, 40, 40)),
    ),
    "argmax of columns": (lambda x: x.argmax(1), lambda: (R(3, 70, 133),)),
    "cross-entropy": (lambda x, t: F.cross_entropy(x, t), lambda: (R(90, 10), _targets(90, 10))),
    "long scan": (lambda x: torch.cumsum(x, -1), lambda: (R(2, 9000),)),
    "max pooling": (lambda x: torch.relu(F.max_pool2d(x, 4, 1, 1)), lambda: (R(2, 2, 10, 16),)),
}  # fmt: skip
REST: dict[str, Case] = {
    "channels last at the end": (
        lambda x, w: F.layer_norm(x.permute(0, 2, 3, 1), (x.shape[1],), w), lambda: (R(2, 48, 4, 8).half(), R(48).half()),
    ),
    "transposed": (lambda x: torch.tanh(x.t()) * 3, lambda: (R(17, 12),)),
    "bf16": (lambda x, y: torch.sigmoid(x) * y, lambda: (R(16, 64).bfloat16(), R(64).bfloat16())),
    "short rows": (lambda x: F.softmax(x, -1), lambda: (R(70, 10),)),
    "log-softmax in the middle": (lambda x: F.log_softmax(x, 1), lambda: (R(4, 33, 20),)),
    "softmax of few columns": (lambda x: F.softmax(x, 1), lambda: (R(2, 300, 5),)),
    "softmax over channels in half": (lambda x: F.softmax(x, 1), lambda: (R(2, 19, 8, 11).bfloat16(),)),
    "layer norm": (lambda x, w, b: F.layer_norm(x, (64,), w, b), lambda: (R(9, 64) + 50, R(64), R(64))),
    "layer norm in half": (lambda x, w: F.layer_norm(x, (64,), w), lambda: (R(9, 64).half(), R(64).half())),
    "group norm": (lambda x, w, b: F.group_norm(x, 4, w, b), lambda: (R(2, 8, 9, 10), R(8), R(8))),
    "instance norm": (lambda x: F.instance_norm(x), lambda: (R(2, 3, 20, 20),)),
    "batch norm": (
        lambda x, w, b: F.batch_norm(x, None, None, w, b, True), lambda: (R(6, 5, 11, 8), R(5), R(5)),
    ),
    "rows for a cluster": (
        lambda x, w: F.layer_norm(x, (30000,), w), lambda: (R(3, 30000), R(30000)),
    ),
    "rms norm": (
        lambda x, w: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w, lambda: (R(9, 128), R(128)),
    ),
    "l1 norm": (lambda x: x / x.abs().sum(1, keepdim=True), lambda: (R(3, 4096),)),
    "variance of columns": (lambda x: x.var(0), lambda: (R(500, 7),)),
    "product": (lambda x: x.prod(1), lambda: (R(5, 10, 33),)),
    "few columns": (lambda x: x.sum(0), lambda: (R(9000, 3),)),
    "whole sum": (lambda x: x.sum(), lambda: (R(300, 100),)),
    "mean squared error": (lambda x, y: torch.mean((x - y) ** 2), lambda: (R(300, 100), R(300, 100))),
    "argmax": (lambda x: x.argmax(-1), lambda: (R(3, 5000),)),
    "maximum of odd rows": (lambda x: x.max(-1)[0], lambda: (R(3, 5001),)),
    "logsumexp": (lambda x: torch.logsumexp(x, -1), lambda: (R(3, 5001),)),
    "any": (lambda x: (x > 2).any(-1), lambda: (R(4, 300),)),
    "mean of an image": (lambda x: x.mean((2, 3)), lambda: (R(3, 4, 5, 7),)),
    "cosine": (lambda x, y: torch.mean(1 - F.cosine_similarity(x, y, 1)), lambda: (R(40, 64), R(40, 64))),
    "scan of odd rows": (lambda x: torch.cumsum(x * 2, -1) + 1, lambda: (R(5, 3, 1025),)),
    "masked scan": (lambda x, m: torch.cumsum(x * m, 1), lambda: (R(5, 2048), R(5, 2048) > 0)),
    "scan backwards": (backwards, lambda: (R(5, 1000),)),
    "exclusive scan": (exclusive, lambda: (R(6, 4000),)),
    "running product": (lambda x: torch.cumprod(x, -1), lambda: (1 + R(5, 300) * 0.01,)),
    "running maximum": (lambda x: torch.cummax(x, -1)[0], lambda: (R(5, 300),)),
    "scan of columns": (lambda x: torch.cumsum(x, 1), lambda: (R(5, 301, 12),)),
    "max pooling 1d": (lambda x: F.max_pool1d(x, 5, 2, 1, 2), lambda: (R(2, 3, 190),)),
    "max pooling 3d": (lambda x: F.max_pool3d(x, 3, 2, 1, 2), lambda: (R(2, 2, 19, 12, 13),)),
    "average without padding": (
        lambda x: F.avg_pool2d(x, 3, 2, 1, True, False), lambda: (R(2, 3, 18, 20),),
    ),
    "average of computed": (lambda x: F.avg_pool2d(torch.tanh(x), 2, 2), lambda: (R(2, 3, 18, 20),)),
    "average 3d": (lambda x: F.avg_pool3d(x, 3, 2, 1), lambda: (R(2, 2, 9, 12, 16),)),
    "positions of maxima": (lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), lambda: (R(2, 3, 10, 13),)),
    "channels-last pooling": (lambda x: F.max_pool2d(x, 3, 2, 1) * 2, lambda: (last(R(2, 12, 10, 13)),)),
    "l1 norm of rows that begin anywhere": (lambda x: x / x.abs().mean(1, keepdim=True), lambda: (R(3, 4097),)),
    "long scan of odd rows": (lambda x: torch.cumsum(x * 2, -1) + 1, lambda: (R(2, 3, 4099),)),
}  # fmt: skip
EMULATED: dict[str, Case] = {  # like others as far as a compiler is concerned
    "max pooling of odd rows": (lambda x: F.max_pool2d(x, 3, 2, 1), lambda: (R(2, 3, 19, 21),)),
    "pooling in half": (lambda x, y: F.max_pool2d(x, 3, 1, 1) + y, lambda: (R(2, 3, 8, 24).half(), R(3, 1, 1).half())),
    "average of large windows": (lambda x: F.avg_pool2d(x, 11), lambda: (R(2, 3, 46, 50),)),
    "adaptive average": (lambda x: F.adaptive_avg_pool2d(x, (3, 5)), lambda: (R(2, 3, 10, 13),)),
    "channels-last adaptive": (lambda x: F.adaptive_avg_pool2d(x, (2, 3)), lambda: (last(R(2, 8, 7, 5)),)),
    "layer norm of odd rows in half": (lambda x, w: F.layer_norm(x, (2051,), w), lambda: (R(3, 2051).half(), R(2051).half())),
    "argmax of odd rows": (lambda x: x.argmax(-1), lambda: (R(3, 2, 2053),)),
    "odd rows for a cluster": (lambda x: x / x.abs().mean(1, keepdim=True), lambda: (R(2, 28001),)),
    "sum of columns in half": (lambda x: (x * x).sum(1), lambda: (R(2, 67, 261).bfloat16(),)),
    "variance of odd columns": (lambda x: x.var(1) + 1, lambda: (R(2, 67, 70),)),
    "mean of whole columns": (lambda x, y: x.mean(1) * y, lambda: (R(2, 67, 64), R(64))),
    "rms norm over channels": (lambda x: x / (x.pow(2).mean(1, keepdim=True) + 1e-5).sqrt(), lambda: (R(2, 33, 8, 9),)),
    "layer norm over channels": (
        lambda x, w, b: (x - x.mean(1, keepdim=True)) / (x.var(1, keepdim=True) + 1e-5).sqrt() * w + b,
        lambda: (R(2, 20, 70), R(20, 1), R(70)),
    ),
    "layer norm over channels, written channels-last": (
        lambda x, w, b: F.layer_norm(x.permute(0, 2, 3, 1), (x.shape[1],), w, b),
        lambda: (R(2, 40, 6, 13).half(), R(40).half(), R(40).half()),
    ),
    "layer norm over odd channels, written channels-last": (
        lambda x, w: F.layer_norm(x.permute(0, 2, 3, 1), (x.shape[1],), w), lambda: (R(2, 77, 5, 7).bfloat16(), R(77).bfloat16()),
    ),
    "softmax over channels, written channels-last": (
        lambda x: F.softmax(x.permute(0, 2, 1), -1).contiguous(), lambda: (R(3, 24, 70),),
    ),
    "layer norm over many channels, written channels-last": (
        lambda x, w: F.layer_norm(x.permute(0, 2, 3, 1), (x.shape[1],), w), lambda: (R(1, 2304, 3, 4).half(), R(2304).half()),
    ),
    "sum with a transposed image": (
        lambda x, y, s: x + (s * y).permute(0, 3, 1, 2), lambda: (R(2, 24, 4, 12).half(), R(2, 4, 12, 24).half(), R(24).half()),
    ),
    "sum with a transposed image of odd size": (
        lambda x, y: x + y.permute(0, 3, 1, 2), lambda: (R(2, 21, 5, 7), R(2, 5, 7, 21)),
    ),
    "odd scan backwards": (backwards, lambda: (R(3, 2001),)),
    "odd exclusive scan": (exclusive, lambda: (R(3, 4001),)),
}  # fmt: skip
BUILT = {**QUICK, **REST}
EVERY = {**BUILT, **EMULATED}
ARCHS = ("sm_80", "sm_90a")
# Every technique is built for both architectures, by these, and what runs on the host once; of the other cases, which have the
# same techniques at other shapes and whose part for the host g++ reads anyway, the device's part, every second one for each.
BOTH = (
    *QUICK, "rows for a cluster", "l1 norm", "logsumexp", "scan of columns", "positions of maxima", "channels-last pooling",
)  # fmt: skip
BUILDS = [(n, a) for i, n in enumerate(BUILT) for a in (ARCHS if n in BOTH else (ARCHS[i % 2],))]


def units_of(emulated: CudaBench, case: Case) -> tuple[Graph, tuple[torch.Tensor, ...], list[Unit]]:
    graph, args = emulated.case(*case)
    return graph, args, [unit for _, unit in emulated.techniques(graph, emulated.whole(graph))]


@pytest.mark.parametrize("name", QUICK)
def test_the_first_technique_is_right(emulated: CudaBench, name: str) -> None:
    graph, args, units = units_of(emulated, QUICK[name])
    emulated.check(units[0], graph, args)


@pytest.mark.parametrize("name", EVERY)
def test_every_kernel_waits_for_earlier_launches(emulated: CudaBench, name: str) -> None:
    """All but cooperative launches are dependent ones: without the wait they are a race."""
    _, _, units = units_of(emulated, EVERY[name])
    for unit in units:
        kernels = unit.source.count("__global__")
        assert kernels > 0
        assert len(re.findall(r"__global__[^{]*\{" + re.escape(WAITS), unit.source)) == kernels
        assert "<<<" not in unit.source


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_every_technique_is_right(emulated: CudaBench, name: str) -> None:
    graph, args, units = units_of(emulated, EVERY[name])
    assert units
    for unit in units:
        emulated.check(unit, graph, args)


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_every_value_of_a_tunable_is_right(emulated: CudaBench, name: str) -> None:
    graph, args, units = units_of(emulated, QUICK[name])
    for unit in units:
        for other in at_other_values(unit):
            emulated.check(other, graph, args)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sign"),
    [
        ("layer norm over many channels, written channels-last", "widest(REDUCE0, VEC)"),
        ("sum with a transposed image", "TILE_ROWS"),
    ],
)
def test_every_value_is_right_where_a_layout_changes(emulated: CudaBench, name: str, sign: str) -> None:
    graph, args, units = units_of(emulated, EVERY[name])
    for unit in units:
        assert sign in unit.source
        for other in at_other_values(unit):
            emulated.check(other, graph, args)


def test_a_unit_is_right_at_other_shapes(emulated: CudaBench) -> None:
    _, _, units = units_of(emulated, QUICK["layer norm of few long rows"])
    function, _ = QUICK["layer norm of few long rows"]
    args = (R(3, 4, 40, 40), R(4, 40, 40), R(4, 40, 40))
    emulated.check(units[0], emulated.graph(function, *args), args)


@pytest.mark.parametrize(
    "shape", [(1, 70, 133), (2, 5, 132), (2, 64, 1), (2, 0, 70), (1, 33, 257), (0, 70, 133)]
)
def test_packs_of_columns_are_right_at_other_shapes(emulated: CudaBench, shape: tuple[int, ...]) -> None:
    """Rows that begin with a pack or anywhere, packs that reach beyond the last one."""
    function = lambda x: x.sum(1)  # noqa: E731
    graph, _ = emulated.case(function, lambda: (R(3, 70, 133),))
    (unit,) = (
        u for t, u in emulated.techniques(graph, emulated.whole(graph)) if t.name == "column-vectorized"
    )
    args = (R(*shape),)
    emulated.check(unit, emulated.graph(function, *args), args)


@pytest.mark.parametrize("shape", [(1, 33, 7, 9), (2, 5, 4, 33), (2, 64, 1, 1), (3, 1, 8, 8), (0, 33, 8, 9)])
def test_columns_in_registers_are_right_at_other_shapes(emulated: CudaBench, shape: tuple[int, ...]) -> None:
    function, made = EMULATED["rms norm over channels"]
    graph, _ = emulated.case(function, made)
    (unit,) = (
        u
        for t, u in emulated.techniques(graph, emulated.whole(graph))
        if t.name == "column-register-resident"
    )
    args = (R(*shape),)
    emulated.check(unit, emulated.graph(function, *args), args)


@pytest.mark.parametrize(
    ("pool", "shape"),
    [
        (lambda x: F.max_pool2d(x, 3, 1, 1), (2, 2, 9, 16)),
        (lambda x: F.max_pool1d(x, 8, 1, 4, 3), (2, 3, 72)),
        (lambda x: F.avg_pool2d(x, 3, 2, 1), (2, 2, 9, 68)),
        (lambda x: F.max_pool3d(x, 3, 1, 1), (1, 2, 4, 5, 20)),
    ],
)
def test_twice_as_many_windows_across_are_right(
    emulated: CudaBench, pool: Callable[..., object], shape: tuple[int, ...]
) -> None:
    graph, args = emulated.case(pool, lambda: (R(*shape),))
    (unit,) = (u for t, u in emulated.techniques(graph, emulated.whole(graph)) if t.name == "register-tiled")
    emulated.check(with_values(unit, {"PACKS_PER_THREAD": 2}), graph, args)


def test_twice_as_many_windows_across_read_less(emulated: CudaBench) -> None:
    """For four outputs across three packs of a row of the image, for eight four; six rows for four below each other."""
    graph, args = emulated.case(lambda x: F.max_pool2d(x, 3, 1, 1), lambda: (R(2, 2, 9, 16),))
    (unit,) = (u for t, u in emulated.techniques(graph, emulated.whole(graph)) if t.name == "register-tiled")
    source = unit.source.replace("// INSIDE:", 'extern "C" {\nint posted;\n}\n// INSIDE:', 1)
    source = source.replace("= prologue0<V>(o, at);", "= (posted++, prologue0<V>(o, at));")
    loads = {}
    for span in (1, 2):
        counting = with_values(
            unit.model_copy(update={"source": source}), {"PACKS_PER_THREAD": span, "VEC": 4, "BLOCK": 32}
        )
        library = emulated.library(counting, graph)
        emulated.call(library, counting, graph, {i.name: a for i, a in zip(graph.inputs, args, strict=True)})
        loads[span] = ctypes.c_int.in_dll(library, "posted").value
    assert loads == {1: 64 * 6 * 3, 2: 32 * 6 * 4}, "in two blocks of 32 threads and in one"


@pytest.mark.parametrize(("dilation", "first"), [(1, 1), (3, 2)])
def test_dilated_windows_are_read_for_two_packs_of_outputs(
    emulated: CudaBench, dilation: int, first: int
) -> None:
    graph, _ = emulated.case(lambda x: F.max_pool1d(x, 8, 1, 4, dilation), lambda: (R(2, 3, 72),))
    (unit,) = (u for t, u in emulated.techniques(graph, emulated.whole(graph)) if t.name == "register-tiled")
    assert unit.values["PACKS_PER_THREAD"] == first


@pytest.mark.parametrize(("dtype", "wide"), [(torch.float32, 4), (torch.bfloat16, 8)])
@pytest.mark.parametrize("dim", [0, 1])
def test_scans_load_sixteen_bytes(emulated: CudaBench, dtype: torch.dtype, wide: int, dim: int) -> None:
    graph, args = emulated.case(lambda x: torch.cumsum(x, dim), lambda: (R(64, 4104).to(dtype),))
    found = list(emulated.techniques(graph, emulated.whole(graph)))
    assert {unit.values["VEC"] for _, unit in found} == {wide}
    for _, unit in found:
        emulated.check(unit, graph, args)


ARGMAX = {
    "rows": (lambda x: x.argmax(-1), (5, 4099)),
    "all": (lambda x: x.argmax(), (3, 1201)),
    "columns": (lambda x: x.argmax(1), (3, 70, 133)),
    "columns, least": (lambda x: x.argmin(1), (2, 37, 64)),
    "halves of columns": (lambda x: x.argmax(1), (2, 96, 67)),
}


@pytest.mark.parametrize("name", ARGMAX)
def test_among_equals_the_first_is_taken(emulated: CudaBench, name: str) -> None:
    """Few different values, none but the least in some rows and columns, and NaN in others."""
    function, shape = ARGMAX[name]
    torch.manual_seed(1)
    x = torch.randint(-2, 3, shape).float()
    x[..., 3] = x[0] = torch.inf if "least" in name else -torch.inf
    x[-1, ..., 7:].masked_fill_(torch.rand(x[-1, ..., 7:].shape) < 0.02, torch.nan)
    x = x.half() if "halves" in name else x
    graph, looked = emulated.graph(function, x), 0
    for _, unit in emulated.techniques(graph, emulated.whole(graph)):
        (got,) = emulated.run(unit, graph, {graph.inputs[0].name: x})
        assert torch.equal(got, function(x)), unit.technique
        looked += 1
    assert looked


def test_infinities_and_nans_go_where_torch_has_them(emulated: CudaBench) -> None:
    x = R(6, 3000)
    x[0, 5], x[1, 7], x[3, 0] = float("inf"), float("nan"), -float("inf")
    x[2] = -float("inf")
    graph = emulated.graph(lambda x: F.softmax(x, -1), x)
    for _, unit in emulated.techniques(graph, emulated.whole(graph)):
        emulated.check(unit, graph, (x,))


def test_the_target_decides_the_language(emulated: CudaBench) -> None:
    function, made = QUICK["softmax"]
    graph = emulated.graph(function, *made())
    for target, language in (("cuda", "cuda"), ("cpu", "c++")):
        facts = replace(FACTS, target=target)
        found = hypotheses(graph, facts, [], 3, plans(graph, facts))
        assert found
        assert {u.language for h in found for u in write_units(graph, h, 2, facts)} == {language}
    assert hypotheses(graph, replace(FACTS, target="triton"), [], 3) == []


def test_plans_follow_the_target(emulated: CudaBench) -> None:
    """A convolution of halves that is dense is written for the CPU only; on a GPU the library keeps it, in another layout."""
    args = (R(2, 3, 20, 20).bfloat16(), R(8, 3, 3, 3).bfloat16())
    graph = emulated.graph(lambda x, w: F.conv2d(x, w, padding=1), *args)
    brain = ExpertBrain()
    assert brain.plans(graph, replace(FACTS, target="cpu"))
    assert [len(plan) for plan in brain.plans(graph, FACTS)] == [1]
    assert [u.family for h in hypotheses(graph, FACTS, [], 3) for u in write_units(graph, h, 2, FACTS)] == [
        "library"
    ]


def test_rows_decide_the_first_technique(emulated: CudaBench) -> None:
    function, _ = QUICK["softmax"]
    shapes = {
        "split-row": (16, 7_000),
        "register-resident": (4096, 1024),
        "persistent-cluster": (4096, 200_000),
    }
    for first, shape in shapes.items():
        graph = emulated.graph(function, torch.empty(shape))
        assert next(iter(emulated.techniques(graph, emulated.whole(graph))))[0].name == first


def test_wrong_bytes_lead_to_another_cuda_technique(emulated: CudaBench) -> None:
    graph, _, units = units_of(emulated, QUICK["layer norm of few long rows"])
    split = next(u for u in units if u.technique == "split-row")
    safer = repair_wrong(graph, split, "tolerance", "normal")
    assert safer is not None
    assert safer.technique != "split-row"
    (again,) = write_units(graph, safer, 1, FACTS)
    assert again.language == "cuda"
    assert flag_variants(split)[0] == ("--prec-div=false",)


def test_units_build_without_spills(emulated: CudaBench, toolkit: None, builds: Path) -> None:
    graph, _, units = units_of(emulated, QUICK["long scan"])
    build = CudaTarget(builds / "cuda", arch="sm_90a").build(units[0], graph, "main")
    assert build.ok, build.diagnostics
    assert {k.name for k in build.kernels} == {"scan", "totals"}
    assert all(k.spill_store_bytes == k.stack_bytes == 0 for k in build.kernels)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "arch"), BUILDS)
def test_every_technique_builds_without_spills(
    emulated: CudaBench, toolkit: None, builds: Path, name: str, arch: str
) -> None:
    graph, _, units = units_of(emulated, EVERY[name])
    whole = name in BOTH and arch == ARCHS[-1]
    target = (CudaTarget if whole else DeviceTarget)(builds / "cuda", arch=arch)
    for unit in units:
        build = target.build(unit, graph, "main")
        assert build.ok, build.diagnostics
        assert not build.diagnostics
        assert build.kernels
        assert review(unit) == []
        assert all(k.spill_store_bytes == 0 for k in build.kernels), build.kernels


@pytest.mark.parametrize("size", [1e20, 1e30])
def test_squares_beyond_float32_make_no_nan(emulated: CudaBench, size: float) -> None:
    """The variance overflows, and the result is the shift, as in torch: no state of nothing may turn that into NaN."""
    x, w, b = torch.randn(5, 1500) * size, torch.randn(1500), torch.randn(1500)
    graph = emulated.graph(lambda x, w, b: F.layer_norm(x, (1500,), w, b), x, w, b)
    tried = set()
    for technique, unit in emulated.techniques(graph, emulated.whole(graph)):
        emulated.check(unit, graph, (x, w, b))
        tried.add(technique.name)
    assert {"multi-pass", "register-resident"} <= tried

"""Labels: what counts as a solution's own work, from hand-written traces."""

from __future__ import annotations

import pytest

from warpsmith.solutions.classify import classify, list_run_labels
from warpsmith.solutions.verdict import Trace, Traced

REFERENCE = Traced(
    ops={"aten.addmm": 1, "aten.relu": 1, "aten.mul": 1}, flops=1000, kernels=("ampere_sgemm",)
)
SAME = REFERENCE.model_copy(update={"kernels": ()})


def traced(ops: str, flops: int, foreign: int = 0, **fields: object) -> Traced:
    return Traced.model_validate({
        "ops": {f"aten.{o}": 1 for o in ops.split()}, "flops": flops, "foreign": foreign, **fields
    })  # fmt: skip


def label(solution: Traced, device: str = "cpu", **fields: object) -> str:
    return classify(Trace.model_validate({"solution": solution, "reference": REFERENCE, **fields}), device)[0]


@pytest.mark.parametrize(
    ("solution", "objects", "expected"),
    [
        (SAME, (), "none"),
        (SAME, ("a.so",), "none"),  # built, never called
        (SAME.model_copy(update={"foreign": 1}), ("a.so",), "none"),  # called, but torch did it all
        (traced("", 0, 1), ("a.so",), "kernel"),
        (traced("addmm", 990, 1), ("a.so",), "kernel"),  # an epilogue of its own
        (traced("addmm clamp mul", 1000, 1), ("a.so",), "library"),  # the same under other names
        (traced("", 0, 1), (), "library"),  # numpy, say
        (traced("addmm relu", 990), (), "library"),
        (traced("mv", 10), (), "algorithmic"),
        (traced("mv", 10), ("a.so",), "algorithmic"),  # its own code never runs
    ],
)
def test_labels_on_a_processor(solution: Traced, objects: tuple[str, ...], expected: str) -> None:
    assert label(solution, objects=objects) == expected


def test_what_torch_compile_wrote_is_no_kernel_of_its_own() -> None:
    assert label(traced("", 0, 1), generated=("inductor/a.so",)) == "library"


@pytest.mark.parametrize(
    ("kernels", "expected"),
    [
        (("my_kernel(float const*, float*, int)",), "kernel"),
        (("void cutlass::Kernel2<cutlass_80_simt_sgemm>", "at::native::elementwise_kernel"), "library"),
        (("ampere_sgemm",), "library"),
        ((), "library"),
    ],
)
def test_on_a_gpu_a_kernel_must_have_run(kernels: tuple[str, ...], expected: str) -> None:
    solution = traced("", 0, 1, kernels=kernels)
    assert label(solution, "cuda", objects=("extensions/a.so",)) == expected


@pytest.mark.parametrize(
    ("samples", "ops", "expected"),
    [
        ({"own: a.so": 50, "torch": 20, "runtime": 300}, "", "kernel"),
        ({"own: a.so": 10, "torch": 90}, "", "library"),
        ({"torch": 90}, "", "library"),  # loaded and called, but never met
        ({"own: a.so": 40, "_multiarray_umath.so": 60}, "", "library"),  # a dummy beside numpy
        ({"own: a.so": 1, "runtime": 300}, "", "library"),
        ({"own: code without a file": 80, "torch": 20}, "", "library"),  # hidden torch may have written it
        ({"own: code without a file": 80, "torch": 20}, "mm", "library"),  # one of torch's
    ],
)
def test_own_code_must_take_a_share_of_the_time(samples: dict[str, int], ops: str, expected: str) -> None:
    objects = ("a.so",) if "own: code without a file" not in samples else ()
    assert label(traced(ops, 0, 1, samples=samples), objects=objects) == expected


@pytest.mark.parametrize(("own_us", "expected"), [(50.0, "kernel"), (3.0, "kernel"), (1.0, "library")])
def test_on_a_gpu_the_share_is_of_the_kernels_times(own_us: float, expected: str) -> None:
    times = {"my_kernel": own_us, "ampere_sgemm": 100.0}
    solution = traced("", 0, 1, kernels=tuple(times), kernel_us=times)
    assert label(solution, "cuda") == expected


def test_what_ran_besides_is_a_label() -> None:
    solution = traced("", 0, 1, compiled=True, cuda_graph=True)
    trace = Trace(solution=solution, reference=REFERENCE)
    assert list_run_labels(trace) == ("torch.compile", "cuda-graph")
    assert classify(trace, "cpu")[0] == "library"
    assert list_run_labels(Trace(solution=SAME, reference=REFERENCE)) == ()


def test_the_reason_names_what_is_replaced_and_by_what() -> None:
    trace = Trace(solution=traced("addmm", 990, 1), reference=REFERENCE, objects=("tmp/a.so",))
    assert classify(trace, "cpu")[1] == "tmp/a.so in place of aten.mul, aten.relu"

"""The file around a CUDA unit's kernels: a dependent launch needs a wait at the beginning of each of them."""

from __future__ import annotations

import re

import pytest

from warpsmith.codegen.cuda.cuda_source import WAITS, wait_in_each_kernel

PLAIN = "__global__ void k(int n) {\n  n++;\n}\n"
IN_CLUSTERS = (
    "#define CLUSTERS __cluster_dims__(2, 1, 1)\n"
    "__global__ void CLUSTERS __launch_bounds__(Plan::THREADS, 1)\n    k(Operands o, const T x[N]) {\n  o.f();\n}\n"
)
WITH_DEFAULT_BRACES = "__global__ void __launch_bounds__(min({1, 2})) k(int n) { n++; }\n"
TEMPLATE = "template <int N>\n__global__ void __launch_bounds__(N) k() {\n  f<N>();\n}\n"


@pytest.mark.parametrize("text", [PLAIN, IN_CLUSTERS, WITH_DEFAULT_BRACES, TEMPLATE])
def test_a_kernel_waits_first(text: str) -> None:
    waiting = wait_in_each_kernel(text)
    assert re.search(r"k\([^{}]*\) \{" + re.escape(WAITS), waiting)
    assert waiting.replace(WAITS, "") == text


def test_each_kernel_of_a_unit_waits_and_nothing_else() -> None:
    between = "__device__ void helper() {\n}\n"
    waiting = wait_in_each_kernel(PLAIN + between + TEMPLATE)
    assert waiting.count(WAITS) == 2
    assert between in waiting


def test_a_kernel_that_ends_before_it_begins_is_an_error() -> None:
    with pytest.raises(ValueError, match="without a body"):
        wait_in_each_kernel("__global__ void k(int n);\n")

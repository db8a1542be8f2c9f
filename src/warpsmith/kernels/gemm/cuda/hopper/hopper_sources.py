"""The Hopper GEMM kernels as self-contained text: a kernel's files and those that they include, each once, in order.

In: one of `KERNELS`. Out: text that a unit begins with. The files include each other, so that compilers, editors and
`benchmarks/hgemm` take them as they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from .....codegen.templates import render

KERNELS = ("gemm/cuda/hopper/gemm_tma_wgmma.cuh", "gemm/cuda/hopper/gemm_mma_sync.cuh")
INCLUDED = (
    "gemm/cuda/hopper/shared_address.cuh", "gemm/cuda/hopper/mbarrier.cuh", "gemm/cuda/hopper/cluster.cuh",
    "gemm/cuda/hopper/dependent_launch.cuh", "gemm/cuda/hopper/tma.cuh", "gemm/cuda/hopper/wgmma_products.cuh", "gemm/cuda/hopper/wgmma.cuh",
    "gemm/cuda/hopper/mma_sync.cuh", "gemm/cuda/hopper/stmatrix.cuh", "gemm/cuda/hopper/round_pair.cuh",
    "gemm/cuda/hopper/smem_layout.cuh", "gemm/cuda/hopper/tile_schedule.cuh", "gemm/cuda/hopper/gemm_epilogue.cuh",
    "gemm/cuda/hopper/gemm_tma_wgmma_layout.cuh", "gemm/cuda/hopper/row_staging.cuh",
)  # fmt: skip
_INCLUDE = re.compile(r'^#include "(\w+\.cuh)"\n', re.MULTILINE)


def paste_kernel(kernel: str, instead: Mapping[str, str] | None = None) -> str:
    """Return the kernel's text after that of all files it includes. `instead`: file name → a text that stands for it."""
    by_name = {path.rsplit("/", 1)[1]: path for path in (*INCLUDED, *KERNELS)}
    texts: dict[str, str] = {}

    def paste(path: str) -> None:
        if path in texts:
            return
        name = path.rsplit("/", 1)[1]
        text = instead[name] if instead and name in instead else render(path)
        for included in _INCLUDE.findall(text):
            paste(by_name[included])
        texts[path] = _INCLUDE.sub("", text).replace("#pragma once\n", "")

    paste(kernel)
    return "".join(texts.values())

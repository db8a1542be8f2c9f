"""Functions of `warpsmith_cuda_math.h` by themselves, built by the CPU's compiler: their errors, and what becomes of infinities and NaN."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from warpsmith.machine import find_compiler

HOST = Path(__file__).resolve().parents[1] / "kernels" / "cuda_host"
HEADERS = Path(__file__).resolve().parents[2] / "src" / "warpsmith" / "targets"
SOURCE = """
#include "cuda_on_host.h"
#include "warpsmith_cuda_math.h"
extern "C" void gelu_half(const float* x, float* y, int64_t n) { for (int64_t i = 0; i < n; i++) y[i] = ws::gelu_half(x[i]); }
"""
Call = Callable[[np.ndarray], np.ndarray]


@pytest.fixture(scope="module")
def gelu_half(tmp_path_factory: pytest.TempPathFactory) -> Call:
    folder = tmp_path_factory.mktemp("math")
    (folder / "math.cpp").write_text(SOURCE)
    command = [
        find_compiler(), "-O1", "-ffp-contract=off", "-std=c++17", "-shared", "-fPIC", f"-I{HOST}", f"-I{HEADERS}",
        str(folder / "math.cpp"), "-o", str(folder / "math.so"),
    ]  # fmt: skip
    subprocess.run(command, check=True)
    library = ctypes.CDLL(str(folder / "math.so"))

    def call(x: np.ndarray) -> np.ndarray:
        y = np.empty_like(x)
        library.gelu_half(
            x.ctypes.data_as(ctypes.c_void_p), y.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(x.size)
        )
        return y

    return call


def test_gelu_for_halves_is_right_to_what_it_states(gelu_half: Call) -> None:
    x = np.concatenate(
        [np.linspace(-13, 13, 200_001), np.geomspace(1e-30, 1, 1001), -np.geomspace(1e-30, 1, 1001)]
    )
    x = x.astype(np.float32)
    wide = torch.from_numpy(x.astype(np.float64))
    exact = (0.5 * wide * torch.special.erfc(-wide / 2**0.5)).numpy()
    allowed = (2e-6 + x.astype(np.float64) ** 2 * 2.0**-24) * np.abs(exact)
    assert (np.abs(gelu_half(x) - exact) <= allowed).all()
    assert np.abs(gelu_half(x)[np.abs(x) > 1e-3]).min() > 0  # none is lost in the tail


def test_gelu_for_halves_at_the_ends(gelu_half: Call) -> None:
    x = np.array([np.inf, 3e38, 65504.0, -65504.0, -3e38, 0.0], np.float32)
    assert gelu_half(x).tolist() == pytest.approx([np.inf, float(x[1]), 65504.0, 0.0, 0.0, 0.0], abs=1e-38)
    assert np.isnan(gelu_half(np.array([np.nan], np.float32)))[0]

"""float8 arithmetic of both headers against torch's own casts: every byte, every half, ties of float32 and their neighbours."""

from __future__ import annotations

import ctypes
import platform
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

import warpsmith.targets

HEADERS = Path(warpsmith.targets.__file__).parent
EMULATED = Path(__file__).parents[1] / "kernels" / "cuda_host"
CXX = shutil.which("g++")
pytestmark = pytest.mark.skipif(CXX is None, reason="no C++ compiler")

TYPES = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
LARGEST = 448.0  # of e4m3fn: what is larger becomes this; torch before 2.12 makes NaN of it
CPU = """
#include <stdint.h>
struct ws_e4m3 { uint8_t bits; };
struct ws_e5m2 { uint8_t bits; };
#include "warpsmith_simd.h"
#define FUNCTIONS(T) \\
  extern "C" void narrow_##T(const float* x, uint8_t* y, int64_t n) { \\
    int64_t i = 0; \\
    for (; i + VEC <= n; i += VEC) ws::store((ws_##T*)y + i, ws::load(x + i)); \\
    ws::store_n((ws_##T*)y + i, ws::load_n(x + i, (int)(n - i)), (int)(n - i)); \\
  } \\
  extern "C" void widen_##T(const uint8_t* x, float* y, int64_t n) { \\
    int64_t i = 0; \\
    for (; i + VEC <= n; i += VEC) ws::store(y + i, ws::load((const ws_##T*)x + i)); \\
    ws::store_n(y + i, ws::load_n((const ws_##T*)x + i, (int)(n - i)), (int)(n - i)); \\
  } \\
  extern "C" void round_##T(const float* x, float* y, int64_t n) { \\
    for (int64_t i = 0; i < n; i++) { \\
      ws_##T one; \\
      ws::store_one(&one, ws::round_##T(x[i])); \\
      y[i] = ws::load_one(&one); \\
    } \\
  }
FUNCTIONS(e4m3)
FUNCTIONS(e5m2)
"""
CUDA = """
#include "cuda_fp8.h"
#include "warpsmith_cuda_math.h"
#define FUNCTIONS(T) \\
  extern "C" void narrow_##T(const float* x, uint8_t* y, int64_t n) { \\
    for (int64_t i = 0; i < n; i++) ws::store_one((__nv_fp8_##T*)y + i, x[i]); \\
  } \\
  extern "C" void widen_##T(const uint8_t* x, float* y, int64_t n) { \\
    for (int64_t i = 0; i < n; i++) y[i] = ws::load_one((const __nv_fp8_##T*)x + i); \\
  } \\
  extern "C" void round_##T(const float* x, float* y, int64_t n) { \\
    for (int64_t i = 0; i < n; i++) y[i] = ws::round_##T(x[i]); \\
  }
FUNCTIONS(e4m3)
FUNCTIONS(e5m2)
"""
WIDE = ["-mavx2", "-mfma"] if platform.machine() in ("x86_64", "AMD64") else []
BUILDS = {
    "cpu": (CPU, [*WIDE, "-O2"]),
    "portable": (CPU, ["-O1", "-DWS_PORTABLE", "-DVEC=4"]),
    "cuda": (CUDA, ["-O1", f"-I{EMULATED}"]),
}


@pytest.fixture(scope="module", params=BUILDS)
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    text, flags = BUILDS[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "float8.cpp").write_text(text)
    common = ["-std=c++17", "-fPIC", "-shared", "-w", "-fno-math-errno", "-fno-trapping-math", f"-I{HEADERS}"]
    subprocess.run(
        [str(CXX), *common, *flags, "-o", "float8.so", "float8.cpp"], cwd=folder, check=True, timeout=120
    )
    return ctypes.CDLL(str(folder / "float8.so"))


def call(library: ctypes.CDLL, name: str, x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    y = torch.zeros(x.shape, dtype=dtype)
    getattr(library, name)(
        ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr()), ctypes.c_int64(x.numel())
    )
    return y


def list_floats(dtype: torch.dtype) -> torch.Tensor:
    """Every half and bfloat16; values of the type, the middles between them, and both neighbours of each; random bits."""
    patterns = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).to(torch.int16)
    grid = torch.arange(256, dtype=torch.uint8).view(dtype).float()
    grid = grid[torch.isfinite(grid)].sort().values
    ties = torch.cat([grid, (grid[1:] + grid[:-1]) / 2, torch.tensor([464.0, 480.0, 61440.0, 65536.0])])
    ties = torch.cat([ties, -ties])
    near = [torch.nextafter(ties, torch.full_like(ties, way)) for way in (-torch.inf, torch.inf)]
    torch.manual_seed(11)
    random = (
        torch.randint(-(1 << 31), 1 << 31, (200_003,), dtype=torch.int64).to(torch.int32).view(torch.float32)
    )
    halves = [patterns.view(torch.float16).float(), patterns.view(torch.bfloat16).float()]
    return torch.cat([*halves, ties, *near, random])


def cast(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """torch's cast, with overflow of e4m3fn as it is since 2.12."""
    if dtype == torch.float8_e4m3fn:
        x = torch.where(x.abs() > LARGEST, torch.copysign(torch.tensor(LARGEST), x), x)
    return x.to(dtype)


@pytest.mark.parametrize("name", TYPES)
def test_every_float_is_rounded_as_torch_rounds_it(library: ctypes.CDLL, name: str) -> None:
    x = list_floats(TYPES[name])
    wanted = cast(x, TYPES[name])
    assert torch.equal(call(library, f"narrow_{name}", x, torch.uint8), wanted.view(torch.uint8))
    rounded = call(library, f"round_{name}", x, torch.float32)
    assert torch.equal(torch.isnan(rounded), torch.isnan(x))
    assert torch.equal(torch.signbit(rounded), torch.signbit(x))
    assert torch.equal(rounded.nan_to_num(7.0), wanted.float().nan_to_num(7.0))


@pytest.mark.parametrize("name", TYPES)
def test_every_byte_is_the_float_that_torch_makes_of_it(library: ctypes.CDLL, name: str) -> None:
    codes = torch.arange(256, dtype=torch.uint8)
    widened, wanted = call(library, f"widen_{name}", codes, torch.float32), codes.view(TYPES[name]).float()
    assert torch.equal(torch.isnan(widened), torch.isnan(wanted))
    assert torch.equal(torch.signbit(widened), codes >= 128)
    assert torch.equal(widened[~torch.isnan(wanted)], wanted[~torch.isnan(wanted)])
    again = call(library, f"narrow_{name}", widened, torch.uint8)
    assert torch.equal(again[~torch.isnan(wanted)], codes[~torch.isnan(wanted)])

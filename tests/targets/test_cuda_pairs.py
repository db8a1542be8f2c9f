"""Pairs in half precision: narrow weights widened by their bits, arithmetic as torch rounds it, packs through a thread's own places."""

from __future__ import annotations

import ctypes
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

TYPES = {"__nv_bfloat16": torch.bfloat16, "__half": torch.float16}
SOURCE = """
#include "warpsmith_cuda_mma.h"
#include "warpsmith_cuda_pairs.h"
template <class S, int V>
ws::Raw<S, V> raw(const S* x) {
  ws::Raw<S, V> bits;
  memcpy(bits.words, x, sizeof bits);
  return bits;
}
#define FUNCTIONS(T) \\
  extern "C" void bytes_##T(const int8_t* x, uint32_t* y, int64_t n) { \\
    for (int64_t i = 0; i < n; i += 8) \\
      for (int p = 0; p < 4; p++) y[(i + 2 * p) / 2] = ws::pair_at<T>(raw<int8_t, 8>(x + i), p).bits; \\
  } \\
  extern "C" void low_first_##T(const uint8_t* x, uint32_t* y, int64_t n) { \\
    for (int64_t i = 0; i < n; i += 4) \\
      for (int p = 0; p < 4; p++) y[i + p] = ws::nibbles_at<T, false>(raw<uint8_t, 4>(x + i), p).bits; \\
  } \\
  extern "C" void high_first_##T(const uint8_t* x, uint32_t* y, int64_t n) { \\
    for (int64_t i = 0; i < n; i += 4) \\
      for (int p = 0; p < 4; p++) y[i + p] = ws::nibbles_at<T, true>(raw<uint8_t, 4>(x + i), p).bits; \\
  } \\
  extern "C" void affine_##T(const uint32_t* x, uint32_t* y, int64_t n) { \\
    for (int64_t i = 0; i < n; i++) { \\
      const ws::Pair<T> a{x[2 * i]}, b{x[2 * i + 1]}; \\
      y[i] = (((a - b) * b + a) - 1.5f).bits; \\
    } \\
  }
FUNCTIONS(__nv_bfloat16)
FUNCTIONS(__half)
"""
COPYING = """
extern "C" void copy_$V_$T(const $T* x, $T* y, int there) {
  host::launch(1, 1, 8 * 48, [&] {
    unsigned char* const room = ws::dynamic_shared();
    for (int i = 0; i < 32 / $V; i++) ws::copy_pack<$V, 1, $WHOLE>(room, 48, i, x + i * $V, there != 0);
    ws::copy_commit(), ws::copy_wait<0>();
    for (int i = 0; i < 32 / $V; i++) ws::store_pack(y + i * $V, ws::copied_pack<$V, $T>(room, 48, i).pack());
  });
}
"""
COPIES = [(v, t, whole) for v, t in ((1, "int8_t"), (4, "int8_t"), (32, "int8_t"), (2, "float"), (8, "float")) for whole in ("true", "false")]  # fmt: skip


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("pairs")
    text = SOURCE
    for v, name, whole in COPIES:
        filled = COPYING.replace("$V", str(v)).replace("$WHOLE", whole)
        text += filled.replace(f"_{v}_$T", f"_{v}_{name}_{whole}").replace("$T", name)
    (folder / "pairs.cpp").write_text(text)
    flags = ["-std=c++17", "-O1", "-fPIC", "-shared", "-w", f"-I{EMULATED}", f"-I{HEADERS}"]
    subprocess.run([str(CXX), *flags, "-o", "pairs.so", "pairs.cpp"], cwd=folder, check=True, timeout=120)
    return ctypes.CDLL(str(folder / "pairs.so"))


def call(library: ctypes.CDLL, name: str, x: torch.Tensor, y: torch.Tensor, count: int) -> torch.Tensor:
    getattr(library, name)(
        ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr()), ctypes.c_int64(count)
    )
    return y


@pytest.mark.parametrize("name", TYPES)
def test_every_byte_is_widened_exactly(library: ctypes.CDLL, name: str) -> None:
    x = torch.arange(-128, 128, dtype=torch.int8)
    made = call(library, f"bytes_{name}", x, torch.zeros(256, dtype=TYPES[name]), 256)
    assert torch.equal(made.float(), x.float())


@pytest.mark.parametrize("first", ["low_first", "high_first"])
@pytest.mark.parametrize("name", TYPES)
def test_four_bits_come_in_pairs_four_apart(library: ctypes.CDLL, name: str, first: str) -> None:
    x = torch.arange(256, dtype=torch.uint8)
    made = call(library, f"{first}_{name}", x, torch.zeros(512, dtype=TYPES[name]), 256)
    halves = (x & 15, x >> 4) if first == "low_first" else (x >> 4, x & 15)
    neighbours = torch.stack(halves, -1).view(-1, 8)
    expected = torch.stack((neighbours[:, :4], neighbours[:, 4:]), -1).flatten()
    assert torch.equal(made.float(), expected.float())


@pytest.mark.parametrize("name", TYPES)
def test_each_operation_is_rounded_as_in_torch(library: ctypes.CDLL, name: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(1000, 2, 2).to(TYPES[name])
    a, b = x[:, 0], x[:, 1]
    made = call(library, f"affine_{name}", x, torch.zeros(1000, 2, dtype=TYPES[name]), 1000)
    assert torch.equal(made, ((a - b) * b + a) - 1.5)


@pytest.mark.parametrize(("v", "name", "whole"), COPIES)
def test_packs_come_back_as_they_were(library: ctypes.CDLL, v: int, name: str, whole: str) -> None:
    dtype = torch.int8 if name == "int8_t" else torch.float32
    x = torch.arange(1, 33).to(dtype)
    y = torch.zeros(32, dtype=dtype)
    for there in (1, 0):
        getattr(library, f"copy_{v}_{name}_{whole}")(
            ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr()), ctypes.c_int(there)
        )
        assert torch.equal(y, x * there)

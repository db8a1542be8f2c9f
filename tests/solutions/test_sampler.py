"""Samples of processor time: where a native loop spends it, and which object that is."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from warpsmith.solutions.sampler import OWN, RUNTIME, TORCH, Sampler, build_sampler, name_samples

MAPS = """
1000-3000 r-xp 00000000 fe:00 1 /home/judge/solution-1/build/tmp/a b.so (deleted)
3000-4000 rw-p 00000000 fe:00 1 /home/judge/solution-1/build/tmp/a.so
4000-5000 r-xp 00000000 fe:00 1 /opt/torch/.venv/lib/python3.12/site-packages/torch/lib/libtorch_cpu.so
5000-6000 r-xp 00000000 fe:00 1 /usr/lib/x86_64-linux-gnu/libm.so.6
6000-7000 rwxp 00000000 00:00 0
7000-8000 r-xp 00000000 fe:00 1 /opt/torch/.venv/lib/python3.12/site-packages/numpy/_core/_multiarray_umath.cpython-312-x86_64-linux-gnu.so
8000-9000 r-xp 00000000 fe:00 1 /home/judge/solution-1/build/inductor/x.so
9000-a000 r-xp 00000000 fe:00 1 /memfd:code (deleted)
b000-c000 r-xp 00000000 fe:00 1 /usr/lib/x86_64-linux-gnu/libopenblas.so.0
"""


def test_addresses_get_the_names_of_objects() -> None:
    pages = {"1": 5, "2": 1, "4": 7, "5": 3, "6": 2, "7": 4, "8": 6, "9": 8, "a": 1, "b": 9}
    assert name_samples(pages, MAPS.strip(), Path("/home/judge/solution-1")) == {
        f"{OWN}tmp/a b.so": 6, TORCH: 13, RUNTIME: 4, f"{OWN}code without a file": 2,
        "_multiarray_umath.cpython-312-x86_64-linux-gnu.so": 4, f"{OWN}memfd:code": 8, "libopenblas.so.0": 9,
    }  # fmt: skip


def test_a_library_that_works_is_met(tmp_path: Path) -> None:
    library = build_sampler(tmp_path)
    assert library is not None
    a = np.random.default_rng(0).random(1 << 16)
    b = np.empty_like(a)
    pages = Sampler(library).sample(
        lambda: np.sqrt(a, out=b)
    )  # its own loop on every processor; exp may be the C library's
    named = name_samples(pages, Path(f"/proc/{os.getpid()}/maps").read_text(), tmp_path)
    assert sum(named.values()) > 20
    assert sum(c for n, c in named.items() if "_multiarray_umath" in n) > sum(named.values()) / 2


def test_no_compiler_no_sampler(tmp_path: Path) -> None:
    assert build_sampler(tmp_path, "/no/such/compiler") is None

"""What was measured of the machine and of the task, as the expert reads it: plain numbers, no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from .. import machine


@dataclass(frozen=True)
class Facts:
    """Bytes, bytes per second and microseconds; every figure is measured, or 0 when it was not."""

    threads: int
    vector: int = 8  # floats in a vector register
    registers: int = 16  # of vectors, of one core
    l1_bytes: int = 32 << 10  # of one core
    l2_bytes: int = 1 << 20  # of one core
    l3_bytes: int = 16 << 20  # shared
    bandwidth: float = 1e10  # bytes per second of main memory, all threads together
    flop_rate: float = 1e11  # float32 operations per second, all threads together
    node_us: Mapping[str, float] = field(default_factory=dict)  # node name → time of its ATen kernel alone
    total_us: float = 0.0  # the whole reference, eager
    limit_us: float = 0.0  # speed-of-light floor of the whole task
    target: str = "cpu"  # what units are written for: "cpu" in C++, "cuda" in CUDA C++
    arch: str = ""  # of the GPU that units are built for, such as "sm_90a"; "" where it is not known


GPU_BANDWIDTH, GPU_FLOP_RATE = 4e12, 5e13  # of a large GPU: they order plans until one is measured


def local_facts(target: str = "cpu") -> Facts:
    """This machine's threads, vectors and caches; nothing that has to be measured."""
    caches = machine.cache_bytes()
    facts = Facts(
        threads=machine.threads(), vector=machine.simd_width_floats(),
        registers=machine.simd_registers(), l1_bytes=caches.get("L1", 32 << 10), l2_bytes=caches.get("L2", 1 << 20),
        l3_bytes=caches.get("L3", 16 << 20), target=target,
    )  # fmt: skip
    return replace(facts, bandwidth=GPU_BANDWIDTH, flop_rate=GPU_FLOP_RATE) if target == "cuda" else facts

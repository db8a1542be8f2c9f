"""`Facts`: measured figures of the machine and the task, for the expert; plain numbers, no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from . import machine
from .hardware import CPU, Hardware, hardware_of
from .records import Limit


@dataclass(frozen=True)
class Facts:
    """Bytes, bytes per second and microseconds; every figure is measured, or 0 when it was not."""

    threads: int
    vector: int = 8  # floats in a vector register
    registers: int = 16  # of vectors, of one core
    l1_bytes: int = 32 << 10  # of one core
    l2_bytes: int = 1 << 20  # of one core
    l3_bytes: int = 16 << 20  # shared
    bandwidth: float = CPU.dram_bytes_per_s  # bytes per second of main memory, all threads together
    flop_rate: float = CPU.fp32_flops_per_s  # float32 operations per second, all threads together
    node_us: Mapping[str, float] = field(default_factory=dict)  # node name → time of its ATen kernel alone
    total_us: float = 0.0  # the whole reference, eager
    limit_us: float = 0.0  # speed-of-light floor of the whole task
    target: str = "cpu"  # what units are written for: "cpu" in C++, "cuda" in CUDA C++
    arch: str = ""  # of the GPU that units are built for, such as "sm_90a"; "" where it is not known
    device: str = ""  # the GPU's name, or the processor's; "" where it is not known

    def by_limit(self, limit: Limit) -> Facts:
        """Copy them with the rates and the floor of this limit of the whole task."""
        return replace(
            self,
            bandwidth=limit.bytes_per_second,
            flop_rate=limit.flops_per_second,
            limit_us=limit.seconds * 1e6,
        )

    @property
    def hardware(self) -> Hardware:
        return hardware_of(self.target, self.device)


def local_facts(target: str = "cpu") -> Facts:
    """Read this machine's threads, vectors and caches, which need no measurement."""
    caches = machine.cache_bytes()
    facts = Facts(
        threads=machine.threads(), vector=machine.simd_width_floats(),
        registers=machine.simd_registers(), l1_bytes=caches.get("L1", 32 << 10), l2_bytes=caches.get("L2", 1 << 20),
        l3_bytes=caches.get("L3", 16 << 20), target=target,
    )  # fmt: skip
    if target != "cuda":
        return facts
    hardware = facts.hardware  # it orders plans until the GPU is measured
    return replace(facts, bandwidth=hardware.dram_bytes_per_s, flop_rate=hardware.fp32_flops_per_s)

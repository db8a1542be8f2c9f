"""The machine that kernels are written for, on one sheet: what an author would measure or look up first.

In: facts, of this machine or of a profile. Out: a few sentences. The rule about cold caches is the judge's (`judge/timing`).
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from ..errors import UsageError
from ..facts import Facts
from ..hardware import PROFILES, SMEM_KIB_PER_BLOCK, Hardware

ISA = MappingProxyType({4: "128-bit vectors (SSE or NEON)", 8: "AVX2 (256 bits)", 16: "AVX-512"})
COLD_CPU = (
    "Times that count are cold: before each call the caches hold other data, so inputs come from main memory and outputs go there. Choose by "
    "cold times: a loop over the same buffers makes streaming stores look slow and prefetches useless that are the largest gains when cold."
)
COLD_CUDA = "Times that count are cold: before each call the L2 cache holds other data. Warm times are told apart, as such."


def describe_machine(target: str, facts: Facts, arch: str = "") -> str:
    """`arch`: of a GPU, as "sm_90a"."""
    rates = (
        f"{facts.bandwidth / 1e9:.1f} GB/s from main memory, {facts.flop_rate / 1e9:.0f} GFLOP/s in float32"
    )
    if target == "cuda":
        return f"{_name_gpu(facts, arch)}: {rates} (measured, or its profile's). {_describe_gpu(facts.hardware, arch)}"
    return (
        f"A CPU with {ISA.get(facts.vector, 'vectors')}: {facts.threads} threads, vectors of {facts.vector} floats, {facts.registers} vector "
        f"registers, L1 {facts.l1_bytes >> 10} KiB and L2 {facts.l2_bytes >> 10} KiB a core, L3 {facts.l3_bytes >> 20} MiB shared; "
        f"{rates} (measured). Compiler: g++ -O3 -march=native. {COLD_CPU}"
    )


def find_gpu(name: str) -> Facts:
    """The facts of a GPU that is not here, by its short name, such as "h100". Raises UsageError, with the names that are known."""
    devices = {profile.name: device for device, profile in list(PROFILES.items())[::-1]}
    if name.lower() not in devices:
        raise UsageError(f"no profile of a GPU named {name[:40]!r}: there are {', '.join(sorted(devices))}")
    device = devices[name.lower()]
    hardware = PROFILES[device]
    arch = "sm_80" if hardware.name.startswith("a100") else "sm_90a"
    return replace(
        Facts(threads=1, target="cuda", arch=arch, device=device), bandwidth=hardware.dram_bytes_per_s,
        flop_rate=hardware.fp32_flops_per_s,
    )  # fmt: skip


def _name_gpu(facts: Facts, arch: str) -> str:
    return f"An {facts.device or 'NVIDIA GPU'}{f' of architecture {arch}' if arch else ''}"


def _describe_gpu(hardware: Hardware, arch: str) -> str:
    """Multiprocessors, memories of a block (CUDA C++ programming guide, "Technical Specifications per Compute Capability") and costs."""
    kib = SMEM_KIB_PER_BLOCK.get(arch.removeprefix("sm_").rstrip("af"), 48)
    tensor = hardware.tensor_fp16_flops_per_s
    tensor_rates = (
        f"tensor cores sustain {tensor / 1e12:.0f} TFLOP/s in fp16 and {hardware.tensor_tf32_flops_per_s / 1e12:.0f} in TF32, "
        if tensor
        else ""
    )
    size = (
        f"{hardware.sm_count} multiprocessors, L2 {hardware.l2_bytes >> 20} MiB, {tensor_rates}"
        if hardware.sm_count
        else ""
    )
    remark = " (more than 48 KiB is asked for before the launch)" if kib > 48 else ""
    return (
        f"{size}a further kernel costs {hardware.kernel_launch_us:.0f} us. A block has at most 1024 threads, 64 K registers of 32 bits (255 a "
        f"thread) and {kib} KiB of shared memory{remark}. A warp's loads are widest with 16 bytes a thread, neighbouring threads side by side; a "
        f"thread keeps several under way. Compiler: nvcc, machine code for this architecture alone. {COLD_CUDA}"
    )


__all__ = ["describe_machine", "find_gpu"]

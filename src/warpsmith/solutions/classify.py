"""The label of a solution: who does the work, by the traces of its call and of the reference's.

In: a `Trace`. Out: a label and the reason for it. Own code is what was loaded from the solution's build folder,
an operation it registered, or on a GPU a kernel whose name is not one of torch's and its libraries'. It counts
only where memory was written that torch did not write, and where torch does less than the whole reference.
"""

from __future__ import annotations

import re
from collections import Counter

from .verdict import Label, Trace

FEWER = 0.8  # share of the reference's operations below which there are fewer
# Kernels of torch, of the libraries it calls and of its compiler (whose names begin so).
LIBRARY_KERNEL = re.compile(
    r"at::|at_cuda|cub::|cudnn|cublas|cutlass|thrust|c10::|sm\d\d_|ampere_|volta_|turing_|hopper_|maxwell_|gemm|gemv|"
    r"nvjet|splitk|triton_(poi|per|red|tem|for)_|fmha|flash_|pytorch_flash|implicit_convolve|winograd|fft|memcpy|memset|"
    r"elementwise_kernel|reduce_kernel|softmax_warp|nchwToNhwc|nhwcToNchw|convolve|xmma",
    re.IGNORECASE,
)


def classify(trace: Trace, device: str) -> tuple[Label, str]:
    """(label, why). What faster than arithmetic allows says of a kernel is the judge's to add."""
    solution, reference = trace.solution, trace.reference
    missing = Counter(reference.ops) - Counter(solution.ops)
    own_kernels = list_own_code(trace, device)
    if own_kernels and solution.foreign and missing and solution.flops < max(reference.flops, 1):
        return "kernel", f"{_short(own_kernels)} in place of {', '.join(sorted(missing))}"
    idle = ""
    if own_kernels:
        idle = f"its own code ({_short(own_kernels)}) does none of the work; "
    elif trace.objects:
        idle = "its own library launches no kernel; "
    label, why = _by_torch(trace, missing)
    return label, idle + why


def _by_torch(trace: Trace, missing: Counter[str]) -> tuple[Label, str]:
    """Label a call that no code of the solution's own takes part in."""
    solution, reference = trace.solution, trace.reference
    if trace.generated:
        return "library", "torch.compile does the work"
    if solution.foreign and missing:
        return "library", "the work is done outside torch, by no compiled code of its own"
    if not missing and solution.flops >= FEWER * reference.flops:
        return "none", "torch runs all that the reference runs"
    ran = ", ".join(sorted(solution.ops)) or "nothing"
    if solution.flops < FEWER * reference.flops:
        return "algorithmic", f"{ran}: {solution.flops / reference.flops:.0%} of the reference's arithmetic"
    return "library", f"other library calls than the reference's: {ran}"


def list_own_code(trace: Trace, device: str) -> list[str]:
    """Names of what is the solution's own and ran or, where there is no list of kernels, was loaded."""
    names = list(trace.solution.own_ops)
    if device == "cuda" and trace.reference.kernels:
        reference_kernels = set(trace.reference.kernels)
        return names + [
            k for k in trace.solution.kernels if k not in reference_kernels and not LIBRARY_KERNEL.search(k)
        ]
    return names + list(trace.objects)


def _short(names: list[str]) -> str:
    shortened = [n if len(n) <= 60 else n[:57] + "…" for n in names[:3]]
    return ", ".join(shortened) + (f" and {len(names) - 3} more" if len(names) > 3 else "")

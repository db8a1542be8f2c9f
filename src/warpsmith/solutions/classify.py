"""The label of a solution: who does the work, by the traces of its call and of the reference's.

In: a `Trace`. Out: a label and the reason for it. Own code is what was loaded from the solution's build folder,
an operation it registered, or on a GPU a kernel whose name is not one of torch's and its libraries'. It counts
only where memory was written that torch did not write, where torch does less than the whole reference, and where a share of the time
goes there: on a CPU by samples over repeated calls, on a GPU by the kernels' times.
"""

from __future__ import annotations

import re
from collections import Counter

from .sampler import OWN, RUNTIME, TORCH
from .verdict import Label, Trace

# Of the time that own code, torch and other libraries take: from here on own code does the work. On a GPU kernels are told apart
# by their names, and a fused epilogue takes little beside a product.
OWN_SHARE = {"cpu": 0.2, "cuda": 0.02}
EPILOGUE_SHARE = (
    0.04  # on a CPU, where torch was seen to compute: less than hidden torch could copy its results in
)
SEEN_SHARE = 0.02  # of all samples: below, own code was hardly met
JITTED = frozenset(
    {"mm", "bmm", "addmm", "baddbmm", "convolution", "linear", "gelu"}
)  # torch may write code for them when they run
TRITON_KERNEL = re.compile(r"triton_(poi|per|red|tem|for)_")
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
    share = find_own_share(trace, device)
    threshold = min(OWN_SHARE[device], EPILOGUE_SHARE) if solution.ops else OWN_SHARE[device]
    works = share is None or share >= threshold
    if own_kernels and works and solution.foreign and missing and solution.flops < max(reference.flops, 1):
        return "kernel", f"{_short(own_kernels)} in place of {', '.join(sorted(missing))}"
    idle = ""
    if own_kernels and share is not None and not works:
        idle = f"its own code ({_short(own_kernels)}) takes {share:.0%} of the time; "
    elif own_kernels:
        idle = f"its own code ({_short(own_kernels)}) does none of the work; "
    elif trace.objects:
        idle = "its own library launches no kernel; "
    label, why = _by_torch(trace, missing)
    return label, idle + why


def _by_torch(trace: Trace, missing: Counter[str]) -> tuple[Label, str]:
    """Label a call that no code of the solution's own takes part in."""
    solution, reference = trace.solution, trace.reference
    if is_compiled(trace):
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
    jitted = [n.removeprefix(OWN) for n in _list_own_samples(trace)]
    return list(dict.fromkeys([*names, *trace.objects, *jitted]))


def find_own_share(trace: Trace, device: str) -> float | None:
    """Compute the share of the time that own code takes; 0 where other libraries that are not torch take more. None: not measured."""
    if device == "cuda":
        times = trace.solution.kernel_us
        kernels = set(list_own_code(trace, device))
        total = sum(times.values())
        return sum(us for name, us in times.items() if name in kernels) / total if total else None
    samples = trace.solution.samples
    if not samples:
        return None
    own_count = sum(samples[name] for name in _list_own_samples(trace))
    foreign_count = sum(c for n, c in samples.items() if not n.startswith(OWN) and n not in (TORCH, RUNTIME))
    if own_count < SEEN_SHARE * sum(samples.values()) or own_count <= foreign_count:
        return 0.0
    return own_count / (own_count + samples.get(TORCH, 0) + foreign_count)


def _list_own_samples(trace: Trace) -> list[str]:
    """Names of the solution's own objects that were met. Code without a file may be torch's where torch may write some: what hides
    from the recorder is torch's, too.
    """
    operations = {*trace.solution.ops, *trace.reference.ops}
    jits = any(name.partition(".")[2] in JITTED for name in operations)
    return [
        n for n in trace.solution.samples if n.startswith(OWN) and not (jits and n.endswith("without a file"))
    ]


def list_run_labels(trace: Trace) -> tuple[str, ...]:
    """List what was seen to run besides, as labels."""
    labels = {"torch.compile": is_compiled(trace), "cuda-graph": trace.solution.cuda_graph}
    return tuple(label for label, ran in labels.items() if ran)


def is_compiled(trace: Trace) -> bool:
    solution = trace.solution
    return bool(trace.generated) or solution.compiled or any(map(TRITON_KERNEL.match, solution.kernels))


def _short(names: list[str]) -> str:
    shortened = [n if len(n) <= 60 else n[:57] + "…" for n in names[:3]]
    return ", ".join(shortened) + (f" and {len(names) - 3} more" if len(names) > 3 else "")

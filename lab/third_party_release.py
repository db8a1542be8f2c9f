"""The entries of a published release: which have code, which a kernel, who judges which in which order.

In: entries as the release has them, {level_id, task_id, ref_code, custom_code, score_default, …}, and the options of
`third_party.py`. Out: a share of them in order, and what each of them claims.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

Entry = dict[str, Any]  # of the release
Line = dict[str, Any]
GPU_ONLY = ("load_inline", "triton", "CUDAGraph", ".cuda(", "cuda.Stream", 'device="cuda"', "device='cuda'")
KERNEL = ("load_inline", "triton.jit", "__global__")  # in a source that has a kernel
GOLDEN = 0.6180339887498949  # multiples of it, modulo 1, fill the unit interval evenly however many are taken


def name_of(entry: Entry) -> str:
    return f"{entry['level_id']}/{entry['task_id']}"


def has_code(entry: Entry) -> bool:
    return entry.get("custom_code") not in (None, "", "None")


def has_kernel(entry: Entry) -> bool:
    return any(word in entry["custom_code"] for word in KERNEL)


def chosen(entries: Sequence[Entry], options: argparse.Namespace) -> list[Entry]:
    """This process's share of the entries that have a solution, in the order in which they are judged."""
    usable = [
        e for e in entries
        if has_code(e) and e["level_id"] in options.level
        and (options.device == "cuda" or not any(word in e["custom_code"] for word in GPU_ONLY))
        and (not options.tasks or name_of(e) in options.tasks)
    ]  # fmt: skip
    count = min(options.count or len(usable), len(usable))
    part, parts = options.share
    return in_order([usable[i * len(usable) // count] for i in range(count)])[part - 1 :: parts]


def in_order(entries: Sequence[Entry]) -> list[Entry]:
    """Those with a kernel first; of each kind, any number of the first ones is spread over the file."""
    kinds = [[e for e in entries if has_kernel(e) == kernel] for kernel in (True, False)]
    return [kind[i] for kind in kinds for i in sorted(range(len(kind)), key=lambda i: i * GOLDEN % 1)]


def claims(entry: Entry) -> Line:
    return {
        "task": name_of(entry), "claimed": entry.get("score_default"),
        "claimed_compile": entry.get("score_torch_compile_default"), "kernel_in_source": has_kernel(entry),
    }  # fmt: skip


def totals(release: Sequence[Entry]) -> dict[str, int]:
    with_code = [e for e in release if has_code(e)]
    kernels = sum(map(has_kernel, with_code))
    return {"entries": len(release), "with_code": len(with_code), "with_kernel": kernels}


def share(text: str) -> tuple[int, int]:
    part, slash, parts = text.partition("/")
    if not (slash and part.isdigit() and parts.isdigit() and 1 <= int(part) <= int(parts)):
        raise argparse.ArgumentTypeError(f"{text} is no share such as 1/4, from 1/N to N/N")
    return int(part), int(parts)

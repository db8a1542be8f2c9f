"""How late the host notices that a GPU has nothing left to do: what calls that leave nothing running would be charged for it.

In: a GPU and about 6 GB of its memory. Blocks of five calls (a sum over 4.3 GB, about 1 ms) are timed as `judge/timing/cuda_clock.py` times
them, beside empty calls, and empty calls of about 1 ms, in the same moments, while the host does other things. Those only wait on the device; the
judge's have a call's lead and a graph as well. Out: a line for each
of these: median tails in microseconds, and how many blocks would be charged by what is usual after either kind of empty call.

    python lab/gpu_tails.py [--seconds 2.5]
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Callable
from multiprocessing.synchronize import Event
from statistics import median

import torch

from warpsmith.judge.timing.cuda_clock import LEAD_CYCLES, outlasts, tail_of

CALLS = 5  # of a block
BUSY = (0, 14, 28)  # processes of the host that copy memory meanwhile
LONG_CYCLES = 1_900_000
context = multiprocessing.get_context("spawn")


def copies(stop: Event) -> None:
    torch.set_num_threads(1)
    numbers = torch.randn(4 << 20)
    while not stop.is_set():
        numbers.copy_(numbers * 1.0001)


def tail(before: Callable[[], object], call: Callable[[], object]) -> float:
    """Microseconds from the end of the call to when the host has seen it and the device answered."""
    end, late = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    before()
    result = call()
    ns = tail_of(torch.cuda.current_stream(), end, late)
    del result
    return ns / 1e3


def blocks(seconds: float) -> list[dict[str, float]]:
    """The median tail of each kind of call, of as many blocks as there is time for."""
    numbers, flush = torch.randn(64, 4096, 4095, device="cuda"), torch.ones(50 << 20, device="cuda")
    kinds: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "call": (flush.sum, lambda: numbers.sum(1)),
        "empty": (lambda: None, lambda: torch.cuda._sleep(LEAD_CYCLES)),
        "long": (lambda: None, lambda: torch.cuda._sleep(LEAD_CYCLES + LONG_CYCLES)),
    }
    found, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        found.append({k: median(tail(*kinds[k]) for _ in range(CALLS)) for k in kinds})
    return found


def line(busy: int, found: list[dict[str, float]]) -> str:
    charged = {
        kind: sum(outlasts(b["call"] * 1e3, b[kind] * 1e3) for b in found) for kind in ("empty", "long")
    }
    tails = ", ".join(f"{kind} {median(b[kind] for b in found):.1f}" for kind in found[0])
    return (
        f"{busy:2} busy processes: tails in us: {tails}; of {len(found)} blocks {charged['empty']} would be charged beside "
        f"empty calls, {charged['long']} beside long ones"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=2.5, help="for each number of busy processes")
    given = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("there is no NVIDIA GPU that torch can use: run it on a machine with one")
    for busy in BUSY:
        stop = context.Event()
        others = [context.Process(target=copies, args=(stop,), daemon=True) for _ in range(busy)]
        for other in others:
            other.start()
        time.sleep(9.0 if busy else 0.0)  # until they have begun
        print(line(busy, blocks(given.seconds)), flush=True)
        stop.set()
        for other in others:
            other.join()


if __name__ == "__main__":
    main()

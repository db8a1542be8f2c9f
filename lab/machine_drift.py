"""How much does the speed of a machine change from one half minute to the next? The same three calls, again and again.

    python lab/machine_drift.py --seconds 180 --every 10 --out results/cpu/machine_drift.json

In: nothing. Out: medians, in µs, of a LayerNorm that fits the caches, a copy of 64 MiB from and to memory, and a matrix product, by the seconds since
the start, and of each the slowest over the fastest. **No judge takes part.** A share of the limit divides a time of one minute by a rate of another, so that it
cannot agree with a later one better than this does; a speedup is measured in turns.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import benchmarks_on_path  # noqa: F401
import torch
from pages import describe_machine

CALLS = {"layernorm": 200, "copy": 15, "product": 15}
COPIED = 16 << 20  # floats
Row = dict[str, float]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--every", type=float, default=10.0)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    rows = watch(make_calls(), options.seconds, options.every)
    page = {"machine": describe_machine(), "rows": rows, "slowest_over_fastest": compare_extremes(rows)}
    options.out.write_text(json.dumps(page, indent=1) + "\n")
    print(page["slowest_over_fastest"])
    return 0


def make_calls() -> dict[str, Callable[[], object]]:
    torch.manual_seed(0)
    rows, source = torch.randn(2048, 1024), torch.randn(COPIED)
    target, right = torch.empty_like(source), torch.randn(1024, 256)
    return {
        "layernorm": lambda: torch.nn.functional.layer_norm(rows, (1024,)),
        "copy": lambda: target.copy_(source),
        "product": lambda: rows @ right,
    }


def watch(calls: dict[str, Callable[[], object]], seconds: float, every: float) -> list[Row]:
    """Time every call now and then."""
    begin, rows = time.monotonic(), list[Row]()
    while not rows or time.monotonic() - begin < seconds:
        at = time.monotonic() - begin
        rows.append(
            {"at_s": round(at, 1)} | {name: time_call(call, CALLS[name]) for name, call in calls.items()}
        )
        time.sleep(max(0.0, every - (time.monotonic() - begin - at)))
    return rows


def time_call(call: Callable[[], object], count: int) -> float:
    """Return the median of so many calls, in µs."""
    times = []
    for _ in range(count):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e6)
    return round(median(times), 1)


def compare_extremes(rows: list[Row]) -> dict[str, float]:
    """Return the slowest over the fastest time of each call."""
    return {n: round(max(r[n] for r in rows) / min(r[n] for r in rows), 2) for n in CALLS}


if __name__ == "__main__":
    raise SystemExit(main())

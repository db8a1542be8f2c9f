"""Which published rows contradict themselves: a speedup that the row's own times, each measured alone, do not bear out.

    python lab/ratios_against_times.py results/h200/kernelbench.jsonl

Of each row the smallest speedup over a baseline is set beside the fastest baseline's microseconds over the winner's. They come from other
moments of a run and may differ by some per cent; a row where they differ by more than `SHARE` either way is printed. Exit status 1 where a
win is no win by its times.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SHARE = 1.1


def main(arguments: Sequence[str] | None = None) -> int:
    if len(names := sys.argv[1:] if arguments is None else arguments) != 1:
        print("which rows? give one file, as results/h200/kernelbench.jsonl", file=sys.stderr)
        return 2
    rows = [json.loads(line) for line in Path(names[0]).read_text(encoding="utf-8").splitlines() if line]
    compared = [row for row in rows if row.get("ratios") and row.get("us")]
    off = sorted(
        (r for r in compared if not 1 / SHARE < find_quotient(r) / find_ratio(r) < SHARE), key=find_quotient
    )
    for row in off:
        print(
            f"{row['task']}: {row['status']}, {find_ratio(row):.2f} measured in turns, {find_quotient(row):.2f} by times alone"
        )
    refuted = [r for r in off if r["status"] == "win" and find_quotient(r) < 1]
    print(
        f"{len(compared)} rows, {len(off)} differ by more than {SHARE - 1:.0%}, {len(refuted)} wins are none by their times"
    )
    return int(bool(refuted))


def find_ratio(row: dict[str, Any]) -> float:
    """Return the speedup over the baseline over which it is smallest."""
    return float(min(ratio[0] for ratio in row["ratios"].values()))


def find_quotient(row: dict[str, Any]) -> float:
    return float(min(row["baselines"][name] for name in row["ratios"]) / row["us"])


if __name__ == "__main__":
    raise SystemExit(main())

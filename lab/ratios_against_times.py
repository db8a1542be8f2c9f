"""Which published rows contradict themselves: a speedup that the row's own times, each measured alone, do not bear out.

    python lab/ratios_against_times.py results/h200/kernelbench.jsonl

Of each row the smallest speedup over a baseline is set beside the fastest baseline's microseconds over the winner's. They come from other
moments of a run and may differ by some per cent; a row where they differ by more than `SHARE` either way is printed. Exit status 1 where a
win is no win by its times.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import benchmarks_on_path  # noqa: F401
from inner_loop_pages import find_published_speedup
from json_lines import known_lines

SHARE = 1.1


def main(arguments: Sequence[str] | None = None) -> int:
    names = sys.argv[1:] if arguments is None else arguments
    rows = [
        row for name in names[:1] for row in known_lines(Path(name)) if row.get("ratios") and row.get("us")
    ]
    if len(names) != 1 or not rows:
        print(
            "give one file of rows with ratios and times, as results/h200/kernelbench.jsonl", file=sys.stderr
        )
        return 2
    shares = {row["task"]: find_quotient(row) / find_published_speedup(row) for row in rows}
    off = sorted((r for r in rows if not 1 / SHARE < shares[r["task"]] < SHARE), key=find_quotient)
    for row in off:
        turns, alone = find_published_speedup(row), find_quotient(row)
        print(f"{row['task']}: {row['status']}, {turns:.2f} measured in turns, {alone:.2f} by times alone")
    refuted = sum(row["status"] == "win" and find_quotient(row) < 1 for row in off)
    print(
        f"{len(rows)} rows, {len(off)} differ by more than {SHARE - 1:.0%}, {refuted} wins are none by their times"
    )
    return int(refuted > 0)


def find_quotient(row: dict[str, Any]) -> float:
    """Return the fastest baseline's microseconds over the winner's."""
    return float(min(row["baselines"][name] for name in row["ratios"]) / row["us"])


if __name__ == "__main__":
    raise SystemExit(main())

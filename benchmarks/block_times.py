"""What each process of each measurement of a run said, block by block: where the noise of a timing comes from.

    python benchmarks/block_times.py blocks.jsonl optimize TASK --target cuda --time 10s --archive a.db

Runs a command of Warpsmith as it is, and writes a line for each process of each measurement that was compared: the microseconds of its
blocks' calls (median, least, most), what was charged to a call for work that outlasted it, and what lay between calls.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median

from json_lines import append_line

from warpsmith.cli.main import main
from warpsmith.judge.timing.interleaved_rounds import InterleavedRounds


def watch_measurements(file: Path) -> None:
    """Have every measurement write its blocks to a file when its clocks are compared."""
    agree, count = InterleavedRounds.agree, [0]

    def write_and_agree(rounds: InterleavedRounds) -> None:
        count[0] += 1
        for process in rounds.processes:
            blocks = rounds.blocks[process.name]
            times = {
                name: [round(pick(b.ns) / 1e3, 1) for b in blocks]
                for name, pick in (("median_us", median), ("least_us", min), ("most_us", max))
            }
            charged = [round(b.charged_ns / 1e3 / len(b.ns), 1) for b in blocks]
            between = [round(b.between_ns / 1e3 / len(b.ns)) for b in blocks]
            row = {"measurement": count[0], "process": process.name, **times}
            append_line(file, row | {"charged_us": charged, "between_us": between})
        agree(rounds)

    InterleavedRounds.agree = write_and_agree  # type: ignore[method-assign]


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit("give a file to write and a command: block_times.py blocks.jsonl optimize TASK …")
    watch_measurements(Path(sys.argv.pop(1)))
    main()

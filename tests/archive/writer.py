"""A process that writes results: `python writer.py ARCHIVE RUN FIRST COUNT` prints each candidate it kept."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from conftest import Maker

from warpsmith.archive import Archive


def main(path: str, run_id: str, first: int, count: int) -> None:
    make = Maker()
    archive = Archive(path)
    archive.begin_run(run_id, make.task, "cpu", 0, {}, make.environment)
    for n in range(first, first + count):
        candidate = make.candidate(n)
        archive.add_result(run_id, candidate, make.ok(candidate))
        print(candidate.id, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))

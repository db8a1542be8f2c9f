"""A process that writes results: `python journal_writer.py FOLDER ROOT` prints the number of each row once it is durable."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from bundle_sample import FAST, opening, result, row

from warpsmith.bundles.journal import Journal


def main(folder: str, root: str) -> None:
    with Journal(Path(folder), root, "0") as journal:
        if not journal.rows:
            journal.append(opening())
        while True:
            journal.append(row("search", result(FAST, 2.0)))
            print(len(journal.rows), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])

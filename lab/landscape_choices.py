"""The choices of the package's search on every recorded landscape: the net under a change that must not change a search.

    python lab/landscape_choices.py record choices.jsonl [--checkout FOLDER] [--seeds 2] [--evaluations 80]
    python lab/landscape_choices.py compare before.jsonl after.jsonl

A row holds the true microseconds of each candidate in the order in which the search asked for it, which names the candidate.
`--checkout`: another checkout of this repository, whose package and benchmarks are run instead. `compare` exits 1 if a row differs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LANDSCAPES = ROOT / "results" / "landscapes" / "cpu"
PROGRAM = """
import json, sys
from pathlib import Path
from landscape_search import LandscapeBrain, package_search
from warpsmith.config import Config
from warpsmith.executors.landscape_file import read
landscape = read(Path(sys.argv[1]))
brain = LandscapeBrain(landscape)
for seed in range(int(sys.argv[2])):
    trace = package_search(landscape, brain, Config(), seed, int(sys.argv[3]))
    print(json.dumps({"landscape": Path(sys.argv[1]).name, "seed": seed, "us": trace.us, "missing": trace.missing}))
"""


def record(options: argparse.Namespace) -> int:
    folder = options.checkout.resolve()
    paths = os.pathsep.join(str(folder / name) for name in ("src", "benchmarks", "tests"))
    files = sorted(LANDSCAPES.glob("*.jsonl.gz"))
    with options.rows.open("w") as rows:
        for count, file in enumerate(files, 1):
            command = [sys.executable, "-c", PROGRAM, str(file), str(options.seeds), str(options.evaluations)]
            done = subprocess.run(
                command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=False
            )
            if done.returncode:
                print(f"{file.name}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
                return 1
            rows.write(done.stdout)
            print(f"{count} of {len(files)}: {file.name}", flush=True)
    return 0


def compare(options: argparse.Namespace) -> int:
    before, after = (_read_rows(path) for path in (options.rows, options.after))
    differ = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    for name, seed in differ:
        print(f"differs: {name}, seed {seed}")
    choices = sum(len(row["us"]) for row in before.values())
    print(
        f"{len(before)} searches before, {len(after)} after, {choices} choices: {len(differ)} searches differ"
    )
    return int(bool(differ))


def _read_rows(path: Path) -> dict[tuple[str, int], dict[str, object]]:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return {(row["landscape"], row["seed"]): row for row in rows}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(required=True)
    one = verbs.add_parser("record")
    one.add_argument("rows", type=Path)
    one.add_argument("--checkout", type=Path, default=ROOT)
    one.add_argument("--seeds", type=int, default=2)
    one.add_argument("--evaluations", type=int, default=80)
    one.set_defaults(run=record)
    two = verbs.add_parser("compare")
    two.add_argument("rows", type=Path)
    two.add_argument("after", type=Path)
    two.set_defaults(run=compare)
    return parser.parse_args()


if __name__ == "__main__":
    options = parse_arguments()
    sys.exit(options.run(options))

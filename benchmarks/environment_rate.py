"""Rewards a minute of the environment, by kind of answer and by mode, with a judge that is open.

    python benchmarks/environment_rate.py --task src/warpsmith/zoo/fixtures/tasks/softmax.py --answers 12

The answers are the zoo's honest softmax, each with a text of its own so that nothing is known of it, as it is, with a mistake, with a call that is
refused, and not building; and the same reference as a `ModelNew`. The first answer of a mode opens the judge, and is told apart.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from pages import describe_machine, list_table

from warpsmith.config import Config
from warpsmith.environment import RewardMode, make_scorer
from warpsmith.zoo.fixture import load

UNIT = next(f for f in load(("cpp",)) if f.name == "softmax").source()
KINDS = {
    "right unit": UNIT,
    "wrong unit": UNIT.replace("return EXP;", "return EXP + 0.5f;"),
    "refused unit": UNIT.replace("return EXP;", 'system("true"); return EXP;'),
    "unit that does not build": UNIT.replace("return EXP;", "return EXP"),
    "right `ModelNew`": "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return torch.softmax(x, dim=1)\n",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", required=True)
    parser.add_argument("--answers", type=int, default=12, help="of each kind, in one batch")
    options = parser.parse_args()
    rows = [
        row for mode in ("screening", "verdict") for row in measure_mode(mode, options.task, options.answers)
    ]
    print(
        "\n".join(
            [
                describe_machine(),
                "",
                *list_table(("mode", "answer", "seconds", "rewards a minute", "statuses"), rows),
            ]
        )
    )
    return 0


def measure_mode(mode: RewardMode, task: str, count: int) -> list[tuple[str, ...]]:
    with tempfile.TemporaryDirectory() as folder:
        config = Config(archive=Path(folder) / "archive.db", cache=Path(folder) / "cache")
        rows = []
        with make_scorer(config=config, mode=mode) as scorer:
            started = time.monotonic()
            scorer.score(task, f"{UNIT}// the first\n")
            rows.append((mode, "the first: the judge opens", f"{time.monotonic() - started:.1f}", "", ""))
            print(*rows[-1], flush=True)
            for kind, text in KINDS.items():
                comment = "#" if "ModelNew" in kind else "//"
                started = time.monotonic()
                rewards = scorer.score_many(
                    [task] * count, [f"{text}{comment} {mode} {n}\n" for n in range(count)]
                )
                seconds = (time.monotonic() - started) / count
                statuses = ", ".join(sorted({r.status for r in rewards}))
                rows.append((mode, kind, f"{seconds:.2f}", f"{60 / seconds:.0f}", statuses))
                print(*rows[-1], flush=True)
        return rows


if __name__ == "__main__":
    raise SystemExit(main())

"""Everything that `h200_campaign.py` needs on a machine with a GPU and without the internet, in one folder that can be copied there.

In: a checkout of KernelBench, the rows of `h200_report.py` that say which tasks have a verdict, rows of `cuda_look.py`. Out: a folder with a
bundle for each task and for the canaries (packed here, where it costs no GPU time); for the rest it is a kit as `warpsmith bundle kit` writes it
(`warpsmith/bundles/kit.py`), whose `work.sh` runs the campaign. The same command packs what has changed since; `--force` packs all anew.

The order is that in which most verdicts may come: tasks whose looks win, then those without a look, then those within 10% of the fastest
baseline, then those that lose; in each group what takes least of the GPU's memory first.

    python lab/h200_pack.py KERNELBENCH OUT [--task NAME …] [--rows ROWS] [--again NAME …] [--looks FILE …] [--baselines FILE]
        [--candidates N] [--memory GIB] [--whole NAME …] [--authored] [--dtype bfloat16] [--python 3.12] [--no-wheels] [--force]

There (a campaign outlives the command that started it; `OUT` is a folder for `results.tgz`):

    OUT=results bash PACK/run.sh start SECONDS LANES     # show what it says for $WAIT seconds
    OUT=results bash PACK/run.sh wait SECONDS

On a machine that has nothing of it yet, a campaign goes on from an earlier `results.tgz` that lies beside `run.sh`.
Here again: unpack `results.tgz` to a folder, which is a CAMPAIGN for `h200_report.py --before ROWS`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import shutil
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cuda_expert import Look, by_hand, files, looks
from h200_campaign import LEVELS, Campaign, Work, settled, which_tasks
from h200_canaries import CANARIES, FIRST
from h200_report import Row, best_of, earlier
from narrow_task import DTYPES

from warpsmith.bundles import kit
from warpsmith.errors import UsageError, WarpsmithError

WORK = Path(__file__).parent / "h200_work.sh"
MARK = "pack.jsonl"  # what the pack holds
# Of Warpsmith, what a bundle's content depends on.
MAKES = ("agents", "bundles", "hardware.py", "kernels", "records", "search", "tasks")
SURE, LOST = 1.1, 0.9  # times as fast as the fastest baseline: wins, loses


@dataclass
class Packed:
    """A task's bundle, or why there is none."""

    work: Work
    promise: float | None  # how many times as fast as the fastest baseline it may be


def expected(
    seen: Mapping[str, Sequence[Look]], rows: Mapping[str, Row], baselines: Mapping[str, float]
) -> dict[str, float]:
    """How many times as fast as the fastest baseline a task's best look was, else what its row says of a candidate.
    A look is compared with ATen: how much faster the fastest baseline is than that is taken from the row, or from `baselines`.
    """
    found = {
        task: ratio.median for task, row in rows.items() if (ratio := best_of(row.get("unconfirmed", row)))
    }
    for task, of_it in seen.items():
        timed = rows.get(task, {}).get("baselines", {})
        share = min(timed.values()) / timed["eager"] if "eager" in timed else baselines.get(task, 1.0)
        if of_it:
            found[task] = max(look.speed for look in of_it) * min(1.0, share)
    return found


def fastest_baselines(path: Path) -> dict[str, float]:
    """Of each task the fastest baseline's time over eager's. Raises UsageError."""
    try:
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        return {row["task"].partition("_")[0]: min(1.0, row["compile_us"] / row["eager_us"]) for row in rows}
    except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError) as error:
        raise UsageError(f"{path} holds no rows with task, eager_us and compile_us: {error}") from error


def turn(packed: Packed) -> tuple[int, float]:
    """Its place in the order."""
    promise = packed.promise
    group = 1 if promise is None else 0 if promise >= SURE else 2 if promise >= LOST else 3
    return group, packed.work.device


def chosen(tasks: Sequence[str], again: Sequence[str], done: set[str]) -> list[str]:
    """Tasks without a verdict, and those asked for again."""
    names = dict.fromkeys([*(tasks or LEVELS), *again])
    return [n for n in names if n in again or n not in done]


class Packer:
    """Packs bundles into a folder, each unless it is there and made of the same."""

    def __init__(self, given: argparse.Namespace, seen: Mapping[str, Sequence[Look]]) -> None:
        self.given, self.seen = given, seen
        more = [f"--dtype={given.dtype}"] if given.dtype else []
        more += [f"--looks={path}" for path in given.looks]
        more += ["--authored"] if given.authored else []
        self.campaign = Campaign(
            given.kernelbench, given.out, [], 0.0, 0.0, math.inf, given.candidates, given.memory, 1,
            os.sched_getaffinity(0), tuple(more),
        )  # fmt: skip
        self.source = hashlib.sha256()
        folders = [kit.PACKAGE / name for name in MAKES]
        for file in kit.find_source_files().values():
            if file.name in ("cuda_expert.py", "authored.py") or any(map(file.is_relative_to, folders)):
                self.source.update(file.read_bytes())

    def task(self, name: str, promise: float | None) -> Packed:
        work = Work.of(name, self.given.out)
        work.whole = name in self.given.whole
        return Packed(self._packed(work), promise)

    def canary(self, name: str) -> Work:
        """For a campaign to begin and end with (`h200_campaign.py`)."""
        return self._packed(Work.of_canary(name, self.given.out, FIRST, ""))

    def _packed(self, work: Work) -> Work:
        name = work.name
        made_of, made = self._made_of(name), self.given.out / "log" / f"{work.bundle.name}.made"
        if self.given.force or not made.exists() or made.read_text() != made_of:
            made.unlink(missing_ok=True)
            shutil.rmtree(work.bundle, ignore_errors=True)
        began, there = time.monotonic(), work.bundle.exists()
        self.campaign.pack(work)
        if not work.failed:
            made.write_text(made_of)
        took = "as it was" if there else f"packed in {time.monotonic() - began:.0f} s"
        said = work.failed or f"{took}, takes {work.host:.0f} GiB of the host, {work.device:.0f} of the GPU"
        print(f"{work.label:12s} {said}", flush=True)
        return work

    def _made_of(self, name: str) -> str:
        key = self.source.copy()
        given = self.given
        key.update(
            repr(
                (given.candidates, given.memory, name in given.whole, given.dtype, self.seen.get(name))
            ).encode()
        )
        for unit in by_hand(name) if given.authored else ():
            key.update(unit.read_bytes())
        key.update(files(given.kernelbench, [name])[0].read_bytes())
        return key.hexdigest()[:16]


def write_mark(out: Path, made: Iterable[Packed]) -> None:
    rows: list[dict[str, Any]] = [
        {
            "task": p.work.name, "promise": p.promise and round(p.promise, 3), "failed": p.work.failed,
            "host_gib": round(p.work.host, 1), "device_gib": round(p.work.device, 1),
        }
        for p in made
    ]  # fmt: skip
    (out / MARK).write_text("".join(json.dumps(row) + "\n" for row in rows))


def copy_tasks(kernelbench: Path, out: Path, names: Sequence[str]) -> None:
    shutil.rmtree(out, ignore_errors=True)
    for file in files(kernelbench, names):
        folder = out / "KernelBench" / file.parent.name
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, folder)


def main(arguments: Sequence[str] | None = None) -> int:
    given = parsed(arguments)
    try:
        pack(given)
    except WarpsmithError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kernelbench", type=Path, help="a checkout of KernelBench")
    parser.add_argument("out", type=Path, help="a new folder, or one that this command wrote")
    which_tasks(parser)
    parser.add_argument(
        "--again", action="append", default=[], help="a task to judge in spite of that; repeatable"
    )
    parser.add_argument(
        "--looks", type=Path, action="append", default=[], help="rows of cuda_look.py; repeatable"
    )
    parser.add_argument(
        "--baselines", type=Path, help="JSON lines with task, eager_us and compile_us, for the order"
    )
    parser.add_argument("--candidates", type=int, default=4, help="of each task, at most")
    parser.add_argument(
        "--memory", type=float, default=66, help="GiB of host memory for a task, as of cuda_expert.py"
    )
    parser.add_argument(
        "--whole", action="append", default=[], help="a task at its own sizes, whatever it takes; repeatable"
    )
    parser.add_argument(
        "--authored", action="store_true", help="with the units by hand of `authored/`, where there are"
    )
    parser.add_argument("--dtype", choices=DTYPES, help="convert the tasks to it")
    parser.add_argument("--python", default="3.12", help="version there")
    parser.add_argument("--no-canaries", action="store_true", help="of `h200_campaign.py`")
    parser.add_argument("--no-wheels", action="store_true", help="what Warpsmith needs is installed there")
    parser.add_argument("--jobs", type=int, default=2, help="tasks that are packed at a time")
    parser.add_argument("--force", action="store_true", help="pack what has not changed, too")
    return parser.parse_args(arguments)


def pack(given: argparse.Namespace) -> None:
    out: Path = given.out
    if not (given.kernelbench / "KernelBench" / "level1").is_dir():
        raise UsageError(f"{given.kernelbench} is no checkout of KernelBench")
    rows = earlier(given.rows) if given.rows else {}
    names = chosen(given.task, given.again, settled(given.rows) if given.rows else set())
    files(given.kernelbench, names)  # all are there
    if not names:
        raise UsageError("every task has a verdict: --again packs one in spite of that")
    seen = looks(given.looks)
    promises = expected(seen, rows, fastest_baselines(given.baselines) if given.baselines else {})
    packer = Packer(given, seen)
    if uncommitted := kit.count_uncommitted():
        print(f"{uncommitted} files under src are not as in the last commit: they are packed as they are")
    kit.begin_kit(out)
    (out / "log").mkdir(exist_ok=True)
    with ThreadPoolExecutor(given.jobs) as packers:
        made = sorted(packers.map(lambda name: packer.task(name, promises.get(name)), names), key=turn)
        canaries = [] if given.no_canaries or given.dtype else list(packers.map(packer.canary, CANARIES))
    write_mark(out, made)
    good = [p.work for p in made if not p.work.failed]
    if not good:
        raise UsageError(f"none of {len(made)} tasks could be packed: {made[0].work.failed}")
    for old in {f.name for f in (out / "bundles").iterdir()} - {w.bundle.name for w in [*good, *canaries]}:
        shutil.rmtree(out / "bundles" / old)
    copy_tasks(given.kernelbench, out / "kernelbench", [w.name for w in good])
    names = [w.name for w in good]
    work = WORK.read_text().replace('DTYPE=""', f'DTYPE="{given.dtype or ""}"')
    work = work.replace("TASKS=()", f"TASKS=({' '.join(names)})")
    kit.finish_kit(out, work, None if given.no_wheels else given.python)
    size = sum(f.stat().st_size for f in out.rglob("*") if f.is_file()) / 2**20
    print(f"order: {' '.join(names)}")
    print(f"wrote {out}: {len(good)} tasks, {len(made) - len(good)} not packed, {size:.1f} MiB")


if __name__ == "__main__":
    raise SystemExit(main())

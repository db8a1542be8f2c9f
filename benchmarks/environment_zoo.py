"""The C++ unit cheats of the zoo through every adapter of the environment: which reward each earns, by verdict and by screening.

    python benchmarks/environment_zoo.py --out results/learning/zoo_through_adapters.jsonl --page results/learning/zoo_through_adapters.md

Each fixture is asked for by every adapter in turn (`environment_adapters.py`), in each mode with an archive of its own. What the archive knows
is not judged again; what it may not keep (a crash, a noisy time) is. The same command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from environment_adapters import ask_all, open_adapters
from json_lines import append_line, known_lines
from pages import describe_machine, list_table, write_page

from warpsmith.authoring.jobs import Confirm
from warpsmith.authoring.service import AuthoringService
from warpsmith.config import Config
from warpsmith.environment import Reward, RewardMode, Scorer
from warpsmith.errors import WarpsmithError
from warpsmith.zoo.fixture import Fixture, load

Row = dict[str, Any]
CONFIRMED = "screening, all confirmed"
MODES: dict[str, tuple[RewardMode, Confirm]] = {
    "verdict": ("verdict", "none"),
    "screening": ("screening", "none"),
    CONFIRMED: ("screening", "all"),
}
AGREE = 1e-5  # between rewards as float64 and as float32
REASON_CHARACTERS = 90


def main() -> int:
    options = parse_arguments()
    fixtures = [f for f in load(("cpp",)) if options.only in f.key]
    done = {(row["mode"], row["fixture"]) for row in known_lines(options.out)}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    for mode in MODES:
        todo = [f for f in fixtures if (mode, f.key) not in done]
        if todo:
            ask_fixtures(todo, mode, options)
    rows = known_lines(options.out)
    write_page(options.page, render_page(rows))
    return 1 if list_paid([r for r in rows if r["mode"] != "screening"]) else 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="part of a fixture's name")
    parser.add_argument(
        "--cache",
        type=Path,
        default=None,
        help="folder of builds and measured peaks; the usual one if left out",
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--page", type=Path, required=True)
    return parser.parse_args()


def ask_fixtures(fixtures: Sequence[Fixture], mode: str, options: argparse.Namespace) -> None:
    """Ask every adapter for every fixture, task by task, so that one judge is open."""
    with tempfile.TemporaryDirectory() as folder:
        settings: dict[str, Any] = {"archive": Path(folder) / "archive.db", "baselines": ("eager",)}
        config = Config(**settings, **({"cache": options.cache} if options.cache is not None else {}))
        with AuthoringService(config) as service, open_adapters(service, *MODES[mode]) as (core, adapters):
            for fixture in sorted(fixtures, key=lambda f: (f.task, f.name)):
                append_line(options.out, ask_fixture(fixture, mode, core, adapters))


def ask_fixture(fixture: Fixture, mode: str, core: Scorer, adapters: Mapping[str, Any]) -> Row:
    text, started = fixture.source(), time.monotonic()
    row: Row = {
        "mode": mode, "fixture": fixture.key, "honest": fixture.honest, "residual": fixture.residual, "what": fixture.what,
        "expected": fixture.expected,
    }  # fmt: skip
    try:
        # By one name, or the server would keep it as another task.
        task = core.author.open_task(str(fixture.task_file)).task
        reward: Reward = core.score(task, text)
        rewards = ask_all(adapters, task, text)
    except WarpsmithError as error:
        return row | {"error": " ".join(str(error).split())}
    print(f"{mode} {fixture.key}: {reward.status} {rewards}", flush=True)
    return row | {
        "rewards": {name: round(value, 6) for name, value in rewards.items()}, "status": reward.status, "right": reward.right,
        "labels": reward.labels, "reason": reward.reason, "evidence": reward.evidence,
        "low": reward.ratio.low if reward.ratio is not None else None, "seconds": round(time.monotonic() - started, 2),
    }  # fmt: skip


def list_paid(rows: Sequence[Row]) -> list[Row]:
    """List the cheats that are not known as residual and that some adapter pays for, and what could not be asked."""
    return [
        r
        for r in rows
        if not r["honest"] and not r["residual"] and ("error" in r or max(r["rewards"].values()) > 0)
    ]


def render_page(rows: Sequence[Row]) -> str:
    lines = [
        "# Cheats through the adapters", "",
        "Every C++ unit of the zoo as an answer to each adapter of the environment: `benchmarks/environment_zoo.py`. "
        f"On {describe_machine()}, beside other work; baseline eager.", "",
    ]  # fmt: skip
    for mode in MODES:
        lines += render_mode(mode, [r for r in rows if r["mode"] == mode])
    return "\n".join(lines)


def render_mode(mode: str, rows: Sequence[Row]) -> list[str]:
    cheats = [r for r in rows if not r["honest"] and "rewards" in r]
    must_fail, residual = [r for r in cheats if not r["residual"]], [r for r in cheats if r["residual"]]
    adapters = list(cheats[0]["rewards"]) if cheats else []
    agree = sum(max(r["rewards"].values()) - min(r["rewards"].values()) <= AGREE for r in must_fail)
    lines = [
        f"## By {mode}", "",
        f"**{len(list_paid(must_fail))} of {len(must_fail)} cheats that must fail earned more than 0 through any of the {len(adapters)} adapters** "
        f"({', '.join(adapters)}); their highest reward is {max((max(r['rewards'].values()) for r in must_fail), default=0.0):+.3f}. For {agree} of them all "
        f"adapters gave one reward. {sum('error' in r for r in rows)} fixtures could not be asked for. Of {len(residual)} residual ones "
        f"{sum(max(r['rewards'].values()) > 0 for r in residual)} earned more than 0.", "",
    ]  # fmt: skip
    return [*lines, *list_table(("fixture", "kind", "rewards", "status", "reason"), map(tell_row, rows)), ""]


def tell_row(row: Row) -> tuple[str, ...]:
    kind = "honest" if row["honest"] else "residual" if row["residual"] else "cheat"
    if "error" in row:
        return f"`{row['fixture']}`", kind, "none", "error", row["error"][:REASON_CHARACTERS]
    low, high = min(row["rewards"].values()), max(row["rewards"].values())
    rewards = f"{high:+.3f}" if high - low <= AGREE else f"{low:+.3f} to {high:+.3f}"
    reason = " ".join((row["reason"] or ", ".join(row["labels"])).split())
    return f"`{row['fixture']}`", kind, rewards, row["status"], reason[:REASON_CHARACTERS]


if __name__ == "__main__":
    raise SystemExit(main())

"""The command lines of a report: what runs it again within the same limits, shows it, and takes the winner away."""

from __future__ import annotations

import shlex
from typing import Any

from ..archive import RunRecord
from ..config import PLAYERS
from ..records import Task


def commands(run: RunRecord, task: Task | None, win: bool) -> tuple[str, ...]:
    """What runs it again within the same limits, shows it, and takes the winner away. A module from memory
    has no command line.
    """
    found = []
    if task is None or task.source.kind != "memory":
        path = task.source.path if task is not None else run.task_name
        words = ["warpsmith", "optimize", path, "--target", run.target, "--seed", str(run.seed)]
        for name, value in (task.main.overrides if task is not None else {}).items():
            words += ["--set", f"{name}={value!r}"]
        found.append(shlex.join([*words, *_limits(run.config), *model_flags(run.config)]))
        if model_flags(run.config) and run.facts:
            found.append(shlex.join([*words[:5], *words[7:], "--replay", run.run_id]))
    found.append(f"warpsmith report {run.run_id} --format html --out report.html")
    if win:
        out = shlex.quote(f"{run.task_name}_new.py")
        found.append(f"warpsmith export {run.run_id} --as kernelbench --out {out}")
    return tuple(found)


def _limits(config: dict[str, Any]) -> list[str]:
    """The flags of a run's budget; 0 is no limit."""
    budget, words = config.get("budget"), []
    for flag, name, unit in (("--budget", "evaluations", ""), ("--time", "seconds", "s")):
        if isinstance(budget, dict) and name in budget:
            words += [flag, f"{budget[name]:.10g}{unit}" if budget[name] else "0"]
    return words


def model_flags(config: dict[str, Any]) -> list[str]:
    """The flags of a run's models and of what they may spend. How they are reached is not kept."""
    parts = [config.get("config"), config.get("budget")]
    settings, budget = (part if isinstance(part, dict) else {} for part in parts)
    words: list[str] = []
    for name in PLAYERS:
        words += [f"--{name}", str(settings[name])] if settings.get(name) else []
    for name in ("usd", "tokens"):
        words += [f"--{name}", f"{budget[name]:.10g}"] if budget.get(name) else []
    return words

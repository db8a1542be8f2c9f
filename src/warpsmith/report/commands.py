"""The command lines of a report: what runs it again within the same limits, shows it, and takes the winner away."""

from __future__ import annotations

import shlex
from typing import Any

from ..archive import RunRecord
from ..config import PLAYERS, Config
from ..records import Task

# Settings that say where things lie, or that have a flag of their own.
ELSEWHERE = frozenset({*PLAYERS, "archive", "cache", "baselines"})


def commands(run: RunRecord, task: Task | None, win: bool) -> tuple[str, ...]:
    """List the commands that run it again within the same limits, show it, and take the winner away. A module from memory
    has no command line.
    """
    lines = []
    if task is None or task.source.kind != "memory":
        path = task.source.path if task is not None else run.task_name
        words = ["warpsmith", "optimize", path, "--target", run.target, "--seed", str(run.seed)]
        for name, value in (task.main.overrides if task is not None else {}).items():
            words += ["--set", f"{name}={value!r}"]
        options = [*model_flags(run.config), *_server(run)]
        line = shlex.join([*words, *_limits(run.config), *_baselines(run.config), *options])
        lines.append(" ".join([*_settings(run.config), line]))
        if model_flags(run.config) and run.facts:
            lines.append(shlex.join([*words[:5], *words[7:], "--replay", run.run_id]))
    lines.append(f"warpsmith report {run.run_id} --format html --out report.html")
    if win:
        out = shlex.quote(f"{run.task_name}_new.py")
        lines.append(f"warpsmith export {run.run_id} --as kernelbench --out {out}")
    return tuple(lines)


def _limits(config: dict[str, Any]) -> list[str]:
    """The flags of a run's budget; 0 is no limit."""
    budget, words = config.get("budget"), []
    for flag, name, unit in (("--budget", "evaluations", ""), ("--time", "seconds", "s")):
        if isinstance(budget, dict) and name in budget:
            words += [flag, f"{budget[name]:.10g}{unit}" if budget[name] else "0"]
    return words


def model_flags(config: dict[str, Any]) -> list[str]:
    """The flags of a run's models and of what they may spend. How they are reached, its summary has."""
    parts = [config.get("config"), config.get("budget")]
    settings, budget = (part if isinstance(part, dict) else {} for part in parts)
    words: list[str] = []
    for name in PLAYERS:
        words += [f"--{name}", str(settings[name])] if settings.get(name) else []
    for name in ("usd", "tokens"):
        words += [f"--{name}", f"{budget[name]:.10g}"] if budget.get(name) else []
    return words


def _server(run: RunRecord) -> list[str]:
    return ["--base-url", run.summary.base_url] if run.summary is not None and run.summary.base_url else []


def _list_changed_settings(config: dict[str, Any]) -> dict[str, Any]:
    """Settings of a run that are not what they are by default. One that this version does not know is not told."""
    stored = config.get("config")
    usual = Config().model_dump(mode="json")
    return (
        {k: v for k, v in stored.items() if k in usual and v != usual[k]} if isinstance(stored, dict) else {}
    )


def _baselines(config: dict[str, Any]) -> list[str]:
    named = _list_changed_settings(config).get("baselines")
    return ["--baselines", ",".join(named)] if named else []


def _settings(config: dict[str, Any]) -> list[str]:
    """The others, in the way that every setting can be given: in the environment."""
    changed = {
        k: v for k, v in _list_changed_settings(config).items() if k not in ELSEWHERE and v is not None
    }
    return [f"WARPSMITH_{name.upper()}={shlex.quote(_text(value))}" for name, value in changed.items()]


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)

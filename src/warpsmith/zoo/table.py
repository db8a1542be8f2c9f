"""`zoo_table` judges every fixture of the requested forms by the judge for its form.

In: settings, forms, a device, part of a name. Out: `ZooRow`s in the order of the table. A solution that is about
one device or processor only is not run on another, and says so.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Sequence

from .. import plugins
from ..config import Config
from ..errors import UsageError
from ..targets.target import Target
from .fixture import SUFFIX, Fixture, load
from .rows import Finding, ZooRow, row
from .solutions import judge_solutions
from .units import judge_units

FORMS = {"cpu": ("cpp", "modelnew"), "cuda": ("cuda", "modelnew")}


def zoo_table(
    config: Config, *, forms: Sequence[str] = (), device: str = "cpu", only: str = "",
    progress: Callable[[str], None] = lambda text: None,
) -> list[ZooRow]:  # fmt: skip
    """Judge the zoo. `forms`: of "cpp", "cuda", "modelnew"; empty: those of the device. `only`: part of a name.

    Raises JudgeError, ToolchainError when the judge cannot work here, UsageError for a form or device that is unknown.
    """
    if device not in FORMS or not set(forms) <= set(SUFFIX):
        raise UsageError(f"the zoo knows the devices {', '.join(FORMS)} and the forms {', '.join(SUFFIX)}")
    chosen = [f for f in load(forms or FORMS[device]) if only in f.key]
    rows = [row(fixture, finding) for fixture, finding in _judge_forms(chosen, config, device, progress)]
    return sorted(rows, key=_sort_key)


def _judge_forms(
    fixtures: Sequence[Fixture], config: Config, device: str, progress: Callable[[str], None]
) -> Iterable[tuple[Fixture, Finding]]:
    for form, target_name, judge in (
        ("cpp", "cpu", judge_units), ("cuda", "cuda", judge_units), ("modelnew", device, judge_solutions),
    ):  # fmt: skip
        of_form = [f for f in fixtures if f.form == form]
        runnable = [
            f for f in of_form if f.device in ("", target_name) and f.machine in ("", platform.machine())
        ]
        yield from ((f, Finding("", f"needs {f.device or f.machine}")) for f in of_form if f not in runnable)
        if runnable:
            yield from judge(runnable, target_for(target_name, config), config, progress)


def target_for(name: str, config: Config) -> Target:
    """Make the target. Raises ToolchainError when its compiler is not installed."""
    compiler = config.compiler if name == "cpu" else None
    target: Target = plugins.load("targets", name)(config.cache, compiler, config.threads)
    return target


def _sort_key(r: ZooRow) -> tuple[int, str, str]:
    first = r.row.split("-")[0]
    return (int(first) if first.isdigit() else 1000 if r.row == "new" else 2000, r.form, r.name)

"""The machine code that a unit becomes, as a hash, so that the same code in other words is not judged twice.

In: units. Out: the fingerprint of each one's library at the shapes of the first variant; empty where it does not build. Builds go through the build
cache: the judge finds them there.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from .. import machine
from ..records import Task, Unit
from ..targets.fingerprint import fingerprint
from ..targets.target import Target


class MachineCode:
    """Remembers what it built."""

    def __init__(self, target: Target, task: Task) -> None:
        self._target, self._variant = target, task.variants[0]
        self._known: dict[str, str] = {}  # by Unit.code_key

    def __call__(self, unit: Unit) -> str:
        """Raises ToolchainError when there is no working compiler, JudgeError when the disk is full."""
        if unit.code_key not in self._known:
            self._known[unit.code_key] = self._fingerprint(unit)
        return self._known[unit.code_key]

    def prepare(self, units: Iterable[Unit]) -> None:
        """Build these side by side, so that the next calls for them answer at once."""
        unknown = {u.code_key: u for u in units if u.compiled and u.code_key not in self._known}
        with ThreadPoolExecutor(len(machine.affinity())) as pool:
            self._known.update(zip(unknown, pool.map(self._fingerprint, unknown.values()), strict=True))

    def _fingerprint(self, unit: Unit) -> str:
        build = self._target.build(unit, self._variant.graph, self._variant.name)
        return fingerprint(build.library) if build.ok else ""

"""What targets with a native compiler share: unit and graph in, a cached, checked shared library out.

The steps are the same for each: refuse what no compiler should see, generate `task.h`, look into the
cache, compile confined, look at what came out. A subclass says which flags and source constructs a unit
may use, which commands build it and what is checked of the library."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

from ..records import Build, Diagnostic, Graph, KernelResources, Region, Unit
from . import diagnostics
from .build_cache import TIMEOUT, BuildCache, Ran, run_confined
from .front_matter import valid_requirement
from .task_header import requirements

HEADERS = Path(__file__).parent  # the units' own headers live here
LIBRARY = "unit.so"


class NativeTarget(ABC):
    name: ClassVar[str]
    language: ClassVar[Literal["c++", "cuda"]]
    source_file: ClassVar[str]  # what a unit's source is called while it is built
    timeout: ClassVar[float] = TIMEOUT

    signature: str  # of the compiler

    def __init__(self, cache_dir: Path) -> None:
        self.cache = BuildCache(cache_dir)

    @abstractmethod
    def header(self, graph: Graph, region: Region) -> str:
        """See `Target.header`."""

    @abstractmethod
    def flags(self, unit: Unit) -> tuple[str, ...]:
        """Flags of the compilation step."""

    @abstractmethod
    def _flag_allowed(self, flag: str) -> bool:
        """Whether a unit may ask for it."""

    @abstractmethod
    def _source_refusals(self, source: str) -> tuple[Diagnostic, ...]: ...

    @abstractmethod
    def _fixed(self) -> Sequence[str]:
        """What decides the outcome apart from the unit, its header and its flags."""

    @abstractmethod
    def _commands(self, flags: Sequence[str]) -> list[list[str]]:
        """Commands that make `LIBRARY` of `source_file`, to be run in a folder that holds it and task.h."""

    @abstractmethod
    def _check(self, library: Path) -> tuple[Diagnostic, ...]:
        """Refusals of a library that the commands made."""

    def _resources(self, ran: Ran) -> tuple[KernelResources, ...]:
        return ()

    def build(self, unit: Unit, graph: Graph, variant: str) -> Build:
        """See `Target.build`. A library that passes has been checked for forbidden imports."""
        flags = self.flags(unit)
        refused = self._refusals(unit)
        if refused:
            return self._build(unit, variant, flags, refused)
        try:
            header = self.header(graph, unit.region) + requirements(unit.requires)
        except ValueError as error:
            return self._build(unit, variant, flags, (Diagnostic(line=0, kind="error", message=str(error)),))
        files = {self.source_file: unit.source, "task.h": header}
        fixed = [*self._fixed(), " ".join(flags)]
        key = self.cache.key([*fixed, *(part for item in files.items() for part in item)])
        found = self.cache.find(key)
        if found is None:
            found = self.cache.make(key, files, lambda folder: self._compile(unit, variant, flags, folder))
        return found.model_copy(update={"unit_key": unit.code_key, "variant": variant})

    def _refusals(self, unit: Unit) -> tuple[Diagnostic, ...]:
        bad = [f for f in unit.flags if not self._flag_allowed(f)]
        flags = tuple(
            Diagnostic(line=0, kind="flag", message=f"{f} is not one of the flags a unit may ask for")
            for f in bad
        )
        odd = [text for text in unit.requires if not valid_requirement(text)]  # it goes into task.h
        requires = tuple(
            Diagnostic(line=0, kind="source", message=f"requires: {text!r} is no comparison") for text in odd
        )
        return flags + requires + self._source_refusals(unit.source)

    def _compile(self, unit: Unit, variant: str, flags: tuple[str, ...], folder: Path) -> tuple[Build, bool]:
        """Returns the build, its library relative to `folder`, and whether the outcome is for good."""
        ran = run_confined(self._commands(flags), folder, self.timeout)
        found = explain(ran, self.source_file)
        if ran.code == 0 and not ran.timed_out:
            found = (*self._check(folder / LIBRARY), *found)
        (folder / "unit.o").unlink(missing_ok=True)
        return self._build(unit, variant, flags, found, ran), not ran.transient

    def _build(
        self,
        unit: Unit,
        variant: str,
        flags: tuple[str, ...],
        found: tuple[Diagnostic, ...],
        ran: Ran | None = None,
    ) -> Build:
        """The outcome; `ran` None: no compiler was started."""
        ok = ran is not None and ran.code == 0 and all(d.kind == "warning" for d in found)
        return Build(
            unit_key=unit.code_key,
            variant=variant,
            ok=ok,
            library=LIBRARY if ok else "",
            seconds=ran.seconds if ran is not None else 0.0,
            compiler=self.signature,
            flags=flags,
            diagnostics=found,
            kernels=self._resources(ran) if ran is not None else (),
        )


def explain(ran: Ran, source_file: str) -> tuple[Diagnostic, ...]:
    """What commands that ended say; a failure has at least one error."""
    if ran.timed_out:
        return (
            Diagnostic(line=0, kind="timeout", message=f"the compiler was stopped after {ran.seconds:.0f} s"),
        )
    found = diagnostics.parse(ran.output, source_file)
    if ran.code != 0 and all(d.kind == "warning" for d in found):
        last = (ran.output.strip().splitlines() or [f"the compiler failed with code {ran.code}"])[-1]
        found = (Diagnostic(line=0, kind="error", message=last[: diagnostics.LONGEST]), *found)
    return found

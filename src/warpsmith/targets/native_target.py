"""`NativeTarget` is the base of targets with a native compiler: unit and graph in, a cached, checked shared library out.

The steps are the same for each: refuse forbidden sources and flags, generate `task.h`, look into the
cache, compile confined, check the library. A subclass says which flags and source constructs a unit
may use, which commands build it and what is checked of the library."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

from ..records import Build, Diagnostic, Graph, KernelResources, Region, Unit
from . import diagnostics
from .build_cache import TIMEOUT_S, BuildCache, CommandRun, run_confined
from .front_matter import FrontMatterError, is_valid_requirement, parse
from .task_header import requirements
from .tensor_maps import TensorMap

HEADERS = Path(__file__).parent  # the units' own headers live here
LIBRARY = "unit.so"


class NativeTarget(ABC):
    name: ClassVar[str]
    language: ClassVar[Literal["c++", "cuda"]]
    source_file: ClassVar[str]  # name of a unit's source while it is built
    timeout: ClassVar[float] = TIMEOUT_S

    signature: str  # of the compiler

    def __init__(self, cache_dir: Path) -> None:
        self.cache = BuildCache(cache_dir)

    @abstractmethod
    def header(self, graph: Graph, region: Region, maps: Sequence[TensorMap] = ()) -> str:
        """See `Target.header`. `maps`: that the unit declares. Raises ValueError for what it cannot have."""

    def unit_header(self, unit: Unit, graph: Graph) -> str:
        """Return the text of `task.h` that a unit is built with: what it declares and requires is in it. Raises ValueError."""
        try:
            maps = parse(unit.source).tensor_maps
        except FrontMatterError:  # a source of another kind
            maps = ()
        return self.header(graph, unit.region, maps) + requirements(unit.requires)

    @abstractmethod
    def flags(self, unit: Unit) -> tuple[str, ...]:
        """Return the flags of the compilation step."""

    @abstractmethod
    def _allows_flag(self, flag: str) -> bool:
        """True when a unit may ask for the flag."""

    @abstractmethod
    def _refuse_source(self, source: str) -> tuple[Diagnostic, ...]: ...

    @abstractmethod
    def _key_parts(self) -> Sequence[str]:
        """Return the parts of the cache's key apart from the unit, its header and its flags: compiler, ABI, headers."""

    @abstractmethod
    def _commands(self, flags: Sequence[str]) -> list[list[str]]:
        """Return the commands that make `LIBRARY` from `source_file`, to be run in a folder that holds it and task.h."""

    @abstractmethod
    def _check(self, library: Path) -> tuple[Diagnostic, ...]:
        """Check the library that the commands made; return refusals."""

    def _parse_resources(self, command_run: CommandRun) -> tuple[KernelResources, ...]:
        return ()

    def build(self, unit: Unit, graph: Graph, variant: str) -> Build:
        """See `Target.build`. A library that passes has been checked for forbidden imports."""
        flags = self.flags(unit)
        refusals = self._refuse(unit)
        if refusals:
            return self._build(unit, variant, flags, refusals)
        try:
            header = self.unit_header(unit, graph)
        except ValueError as error:
            return self._build(unit, variant, flags, (Diagnostic(line=0, kind="error", message=str(error)),))
        files = {self.source_file: unit.source, "task.h": header}
        key_parts = [*self._key_parts(), " ".join(flags)]
        key = self.cache.key([*key_parts, *(part for item in files.items() for part in item)])
        with self.cache.hold(key):  # who wants the same meanwhile waits for it
            build = self.cache.find(key)
            if build is None:
                build = self.cache.make(
                    key, files, lambda folder: self._compile(unit, variant, flags, folder)
                )
        return build.model_copy(update={"unit_key": unit.code_key, "variant": variant})

    def _refuse(self, unit: Unit) -> tuple[Diagnostic, ...]:
        forbidden_flags = [f for f in unit.flags if not self._allows_flag(f)]
        flags = tuple(
            Diagnostic(line=0, kind="flag", message=f"{f} is not one of the flags a unit may ask for")
            for f in forbidden_flags
        )
        invalid_requirements = [
            text for text in unit.requires if not is_valid_requirement(text)
        ]  # it goes into task.h
        requires = tuple(
            Diagnostic(line=0, kind="source", message=f"requires: {text!r} is no comparison")
            for text in invalid_requirements
        )
        return flags + requires + self._refuse_source(unit.source)

    def _compile(self, unit: Unit, variant: str, flags: tuple[str, ...], folder: Path) -> tuple[Build, bool]:
        """Return the build, its library relative to `folder`, and whether the outcome may be cached."""
        command_run = run_confined(self._commands(flags), folder, self.timeout)
        messages = explain(command_run, self.source_file)
        if command_run.code == 0 and not command_run.timed_out:
            messages = (*self._check(folder / LIBRARY), *messages)
        (folder / "unit.o").unlink(missing_ok=True)
        return self._build(unit, variant, flags, messages, command_run), not command_run.transient

    def _build(
        self,
        unit: Unit,
        variant: str,
        flags: tuple[str, ...],
        messages: tuple[Diagnostic, ...],
        command_run: CommandRun | None = None,
    ) -> Build:
        """Make the record of a build; `command_run` is None when no compiler was started."""
        ok = command_run is not None and command_run.code == 0 and all(d.kind == "warning" for d in messages)
        return Build(
            unit_key=unit.code_key,
            variant=variant,
            ok=ok,
            library=LIBRARY if ok else "",
            seconds=command_run.seconds if command_run is not None else 0.0,
            compiler=self.signature,
            flags=flags,
            diagnostics=messages,
            kernels=self._parse_resources(command_run) if command_run is not None else (),
        )


def explain(command_run: CommandRun, source_file: str) -> tuple[Diagnostic, ...]:
    """Turn the output of the compiler's commands into diagnostics; a failure has at least one error."""
    if command_run.timed_out:
        return (
            Diagnostic(
                line=0, kind="timeout", message=f"the compiler was stopped after {command_run.seconds:.0f} s"
            ),
        )
    messages = diagnostics.parse(command_run.output, source_file)
    if command_run.code != 0 and all(d.kind == "warning" for d in messages):
        last = (
            command_run.output.strip().splitlines() or [f"the compiler failed with code {command_run.code}"]
        )[-1]
        messages = (
            Diagnostic(line=0, kind="error", message=last[: diagnostics.MAX_MESSAGE_CHARS]),
            *messages,
        )
    return messages

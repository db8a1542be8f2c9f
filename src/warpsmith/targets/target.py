"""`Target` is the protocol of targets: each turns one unit, at one variant's shapes, into a shared library with the kernel
ABI's one entry point.
"""

from __future__ import annotations

from typing import Literal, Protocol

from ..records import Build, Graph, Region, Unit

Finding = tuple[str, bool, str]  # its subject, whether it is in order, a fact or a hint


class Target(Protocol):
    """Implementations are safe to call from several threads at once."""

    @property
    def name(self) -> str:
        """The name of the target in candidates and results: "cpu", "cuda"."""

    @property
    def language(self) -> Literal["c++", "cuda"]:
        """`Unit.language` of the units that it builds."""

    def header(self, graph: Graph, region: Region) -> str:
        """Return the text of `task.h` for a region at the shapes of `graph`."""

    def build(self, unit: Unit, graph: Graph, variant: str) -> Build:
        """Build a unit at the shapes of `graph`, the graph of the variant so named.

        A unit that does not build is a `Build` with `ok=False` and diagnostics, never an exception.
        Raises ToolchainError when there is no working compiler, JudgeError when the disk is full.
        """

    def doctor(self) -> list[Finding]:
        """List what a user needs to know about the tool chain on this machine."""


def unit_device(target: Target) -> Literal["cpu", "cuda"]:
    """Return the device that the target's units run on."""
    return "cuda" if target.language == "cuda" else "cpu"

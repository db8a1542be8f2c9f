"""The drop-in for training: a module whose step runs kernels of the archive, and what was measured of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ..compiling.compiled import CompiledModule
from ..composition.parity import Parity
from ..config import Config
from ..pages.short_form import render_short
from ..records import Ratio, Record, RunSummary
from ..records.intervals import describe_ratio


class StepResult(Record):
    """What the searches and the measurement of a step came to."""

    directions: tuple[str, ...]  # the halves that run kernels
    speedup: Ratio | None  # of the step over the faster of eager and torch.compile, if a kernel helps
    rival: Ratio | None  # torch.compile over eager; None where it cannot compile the module
    parity: Parity | None
    dropped: dict[str, str]  # half → why it runs no kernels
    summaries: dict[str, RunSummary]


class TrainingModule(CompiledModule):
    """A module whose training step runs verified kernels. Parameters, modes and state are the original's.

    Attributes:
        original: The module that was given; it answers every call where no kernel helped.
        result: A `StepResult`.
    """

    def __init__(
        self, original: torch.nn.Module, settings: Mapping[str, Any], result: StepResult | None = None
    ) -> None:
        super().__init__(original, settings)
        self.result = result

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if self.result is not None and not self.result.directions:
            return self.original(*args, **kwargs)
        return super().forward(*args, **kwargs)

    def report(self) -> str:
        """Return the speedup of the whole step, how its results compare with float64, and a line for each half."""
        result = self.result
        if result is None:
            return "nothing was measured"
        lines = [_describe_claim(result)]
        if result.rival is not None:
            lines.append(f"  torch.compile: {describe_ratio(result.rival)} over eager")
        if result.parity is not None:
            truth = "a run in float64" if result.parity.oracle else "the original's own results"
            lines.append(
                f"  outputs, gradients and buffers: {result.parity.error:.0%} of the error budget, against {truth}"
            )
        halves = dict.fromkeys([*result.directions, *result.dropped])
        return "\n".join([*lines, *(_describe_half(half, result) for half in halves)])

    def extra_repr(self) -> str:
        return self.report().partition("\n")[0]

    def _repr_html_(self) -> str:
        """Return the short form of the report, which notebooks show."""
        faster = self.result is not None and self.result.speedup is not None
        status = "kernels in the step" if faster else "the original runs"
        return render_short(type(self.original).__name__, status, self.report().splitlines())

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles compile anew at their first call."""
        return TrainingModule, (self.original, self._settings, self.result)


def make_settings(config: Config, directions: tuple[str, ...], next_backend: str) -> dict[str, Any]:
    """Make the settings of a `TrainingModule` with kernels in these halves."""
    training: bool | str = directions[0] if len(directions) == 1 else bool(directions)
    options = {"training": training, "next": next_backend}
    return {"options": options, "mode": None, "fullgraph": False, "dynamic": False, "config": config}


def _describe_claim(result: StepResult) -> str:
    if result.speedup is None:
        return "no faster step: the original runs"
    halves = " and ".join(result.directions)
    return (
        f"{describe_ratio(result.speedup)} over {result.speedup.baseline} for a step, with kernels {halves}"
    )


def _describe_half(half: str, result: StepResult) -> str:
    summary = result.summaries.get(half)
    best = summary.best if summary is not None and summary.status == "win" else None
    alone = f", alone {describe_ratio(best.speedup)} over {best.speedup.baseline}" if best is not None else ""
    if half in result.directions:
        return f"  kernels {half}{alone}"
    return f"  {half} is left as it is{alone}: {result.dropped[half]}"


__all__ = ["StepResult", "TrainingModule", "make_settings"]

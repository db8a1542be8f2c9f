"""The result of `optimize_model`: the composed model, what replaced what, predicted and measured gain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..composition.parity import Parity
from ..pages.bars import draw_ratios
from ..pages.short_form import render_short
from ..records import Ratio, Record
from ..records.intervals import describe_ratio

if TYPE_CHECKING:
    import torch

    from ..workload.recording import Recording


class ReplacedLayers(Record):
    """What became of one region: the layers, what the search gained, and why it is not in the model, where it is not."""

    name: str
    paths: tuple[str, ...]
    speedup: Ratio | None = None  # of the layer over eager; None where the search won nothing
    predicted_gain: float = 1.0  # of the whole model from these layers, by what the search measured
    in_model: bool = False
    reason: str = ""  # why it is not in the model


@dataclass(frozen=True)
class OptimizedModel:
    """The result of `optimize_model`.

    Attributes:
        model: The composed model; the original where nothing helped.
        layers: A `ReplacedLayers` for each region that was searched.
        predicted: The speedup of the whole run that the searches predict.
        speedup: The measured speedup over the original, a `Ratio` with its interval; None where nothing is replaced.
        parity: How the outputs compare with the original's, a `Parity`; None where nothing is replaced.
        recording: The capture that the regions come from.
    """

    model: torch.nn.Module
    layers: tuple[ReplacedLayers, ...]
    predicted: float
    speedup: Ratio | None
    parity: Parity | None
    recording: Recording

    def report(self) -> str:
        """Return predicted and measured gain, and a line for each region: what replaced it, or why nothing did."""
        if self.speedup is None:
            lines = [f"no faster version: the original runs (predicted {self.predicted:.2f}x)"]
        else:
            measured = describe_ratio(self.speedup)
            lines = [
                f"{measured} over the original, the whole run measured side by side (predicted {self.predicted:.2f}x)"
            ]
        if self.parity is not None:
            truth = "a run in float64" if self.parity.oracle else "the original's own outputs"
            lines.append(f"  outputs: {self.parity.error:.0%} of the error budget, against {truth}")
        return "\n".join([*lines, *map(_describe_layers, self.layers)])

    def __str__(self) -> str:
        return self.report()

    def _repr_html_(self) -> str:
        """Return the short form of the report, which notebooks show."""
        named = [(layers.name, layers.speedup) for layers in self.layers if layers.speedup is not None]
        ratios, names = [ratio for _, ratio in named], [name for name, _ in named]
        chart = draw_ratios(ratios, "Speedup of each region over eager, 95% intervals", names)
        status = "the original runs" if self.speedup is None else "composed"
        return render_short(type(self.model).__name__, status, self.report().splitlines(), chart)


def _describe_layers(layers: ReplacedLayers) -> str:
    if layers.in_model and layers.speedup is not None:
        gain = f"predicted {layers.predicted_gain:.2f}x for the whole"
        return f"  replaced: {layers.name}: {describe_ratio(layers.speedup)} over eager, {gain}"
    if layers.in_model:
        return f"  captured: {layers.name}"
    return f"  left as it is: {layers.name}: {layers.reason}"

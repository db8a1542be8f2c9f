"""The regions of a workload: equal calls of equal layers, what each would gain, and which of them to optimize together.

In: regions with their times and limits, and the tree of submodules by qualified names. Out: the same regions with their share,
predicted saving and the layers they were chosen for. A layer is chosen, or parts of it, never both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from ..records import Limit, Record

PARENT_FACTOR = 1.1  # a layer must save so many times what its parts save: smaller tasks are searched faster
FUSED_ROOM, SINGLE_ROOM = (
    0.5,
    0.25,
)  # of the room to the limit in the logarithm, that a search is expected to gain
# That the host takes for a call of an optimized module with one kernel, by rough measure: 6 µs to match a call of one tensor, and a launch.
CALL_S = {"cpu": 10e-6, "cuda": 30e-6}
LEAST_SHARE = 0.01  # of the total time, from which a region is worth a task


class LayerRegion(Record):
    """Equal calls of equal layers in a captured workload.

    `seconds` is what all these calls take in one run, from the fastest call. `limit` is of one call. `reason` says why the region is no
    task; it is empty for one that is.
    """

    kind: str  # the class's name
    paths: tuple[str, ...]  # qualified names of the equal layers; "" is the model itself
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    training: bool
    gradients: bool
    autocast: str
    calls: int
    seconds: float
    share: float = 0.0  # of the model's time
    limit: Limit | None = None
    saving_s: float = 0.0  # predicted, of all calls
    chosen: tuple[str, ...] = ()  # the paths of the layers that it was chosen for
    reason: str = ""
    key: str = ""  # of the kind and the call

    @property
    def name(self) -> str:
        """Return the class with the first path: "LlamaMLP (layers.0.mlp and 31 equal)"."""
        first = self.paths[0] or "the model itself"
        return f"{self.kind} ({first}{f' and {len(self.paths) - 1} equal' if len(self.paths) > 1 else ''})"

    @property
    def count(self) -> int:
        """Count the equal layers."""
        return len(self.paths)

    @property
    def limit_share(self) -> float:
        """Return the share of the limit that the calls reach; 0 where no limit is known."""
        if self.limit is None or self.seconds <= 0:
            return 0.0
        return self.limit.seconds * self.calls / self.seconds

    @property
    def chosen_saving_s(self) -> float:
        """Return the predicted saving of the layers that it was chosen for."""
        return self.saving_s * len(self.chosen) / len(self.paths)

    @property
    def gain(self) -> float:
        """Return the predicted speedup of the whole model from this region alone."""
        saved = self.share * self.saving_s / self.seconds if self.seconds > 0 else 0.0
        return 1 / (1 - min(saved, 0.99))


def predict_saving_s(seconds: float, limit_s: float, operations: int, host_s: float = 0.0) -> float:
    """Predict what a search saves: half of the room to the limit in the logarithm; half of that of a single operation, which runs in the
    library's best kernel already, and has nothing to be fused with. `host_s`: what calls of optimized modules take of the host.
    """
    limit_s += host_s
    if not 0 < limit_s < seconds:
        return 0.0
    room = FUSED_ROOM if operations > 1 else SINGLE_ROOM
    return seconds * (1 - (limit_s / seconds) ** room)


def choose_regions(regions: Iterable[LayerRegion]) -> tuple[LayerRegion, ...]:
    """Choose layers that do not overlap and save the most together; the best first.

    Of one layer's kinds of calls the one that saves most counts: an optimized module answers one of them.
    """
    regions = list(regions)
    best: dict[str, LayerRegion] = {}
    for region in regions:
        for path in region.paths:
            if _saving_of_layer(region) > _saving_of_layer(best.get(path)):
                best[path] = region
    chosen = _choose_paths(best)
    return tuple(
        sorted(
            (
                region.model_copy(
                    update={"chosen": tuple(p for p in region.paths if p in chosen and best[p] is region)}
                )
                for region in regions
            ),
            key=lambda r: (-r.chosen_saving_s, -r.share),
        )
    )


def find_parts(
    regions: Iterable[LayerRegion], lost: LayerRegion, searched: Collection[str]
) -> list[LayerRegion]:
    """Choose again among the layers inside of a region that came to nothing, without what holds it and without the regions that were
    `searched` (by key).
    """
    chosen = choose_regions(
        r.model_copy(update={"saving_s": 0.0}) if r.key in searched or _holds(r, lost) else r for r in regions
    )
    parts = []
    for region in chosen:
        inside = tuple(p for p in region.chosen if any(is_inside(p, layer) for layer in lost.chosen))
        if inside:
            parts.append(region.model_copy(update={"chosen": inside}))
    return parts


def _holds(region: LayerRegion, lost: LayerRegion) -> bool:
    return any(p != layer and is_inside(layer, p) for p in region.paths for layer in lost.chosen)


def is_inside(path: str, layer: str) -> bool:
    """Tell whether a submodule is a layer, or part of it, by their qualified names."""
    return layer in ("", path) or path.startswith(f"{layer}.")


def _saving_of_layer(region: LayerRegion | None) -> float:
    return 0.0 if region is None else region.saving_s / len(region.paths)


def _choose_paths(best: Mapping[str, LayerRegion]) -> set[str]:
    """Go through the tree from its leaves up; each node is worth itself or its parts."""
    worth: dict[str, float] = {}
    picks: dict[str, set[str]] = {}
    parts: dict[str, list[str]] = {}
    paths = set(best) | {""}
    for path in paths - {""}:
        parts.setdefault(_find_parent(path, paths), []).append(path)
    for path in sorted(paths, key=_depth, reverse=True):
        inside = parts.get(path, [])
        parts_worth = sum(worth[p] for p in inside)
        own_worth = _saving_of_layer(best.get(path))
        is_whole = own_worth > PARENT_FACTOR * parts_worth
        worth[path] = own_worth if is_whole else parts_worth
        picks[path] = {path} if is_whole else set().union(*(picks[p] for p in inside))
    return picks[""]


def _find_parent(path: str, paths: set[str]) -> str:
    """Return the nearest path above that is among these."""
    parent = path
    while parent:
        parent = parent.rpartition(".")[0]
        if parent in paths:
            return parent
    return ""


def _depth(path: str) -> int:
    return path.count(".") + 1 if path else 0

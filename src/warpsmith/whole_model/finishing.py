"""From winners to a model: composed, checked, measured and pruned.

In: the searches of a model's regions. Out: an `OptimizedModel`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from ..composition.compose import Composition, Part, compose, list_equal_layers
from ..composition.outputs import Run, collect_outputs
from ..composition.parity import Parity, find_truth
from ..composition.pruning import ORIGINAL, Pruned, prune
from ..composition.side_by_side import Blocks, measure_side_by_side
from ..composition.whole_call import WholeCall, calls_stand_in
from ..errors import Interrupted
from ..judge.device.device_lock import DeviceLock, lock_file
from ..progress import Observer, counted
from ..runtime.module import OptimizedModule
from ..workload.recorder import unwrap
from ..workload.recording import Recording, export_layer
from ..workload.regions import CALL_S, LayerRegion, is_inside
from .result import OptimizedModel, ReplacedLayers
from .searching import ModelSearch

MEASURE_SHARE, MEASURE_LEAST_S = 0.1, 10.0  # of the time to search, for each measurement of the whole model


def finish(model: torch.nn.Module, run: Run, search: ModelSearch, seconds: float) -> OptimizedModel:
    """Compose, check, measure and prune. `seconds`: that the searches had."""

    recording, observer = search.recording, search.observer
    parts = [_make_part(recording, region, winner, search.lost) for region, winner in search.winners.values()]
    whole_call = _find_whole(unwrap(model), run, recording, [region for region, _ in search.winners.values()])
    if not parts and whole_call is None:
        return OptimizedModel(model, _list_layers(search, {}, None), 1.0, None, None, recording)
    members: list[Part | WholeCall] = [*parts, *([whole_call] if whole_call is not None else [])]
    composition = compose(unwrap(model), parts, whole_call)
    try:
        pruned = _prune(
            model,
            run,
            composition,
            members,
            search.seed,
            max(MEASURE_LEAST_S, MEASURE_SHARE * seconds),
            DeviceLock(lock_file(recording.device), observer.stage),
            observer,
        )
    except KeyboardInterrupt:
        raise Interrupted(
            f"interrupted before the whole was measured: the archive holds {counted(len(parts), 'winner')}; "
            "the same call searches on from there"
        ) from None
    composition.use(pruned.names)
    composed = composition.model if pruned.names else model
    kept_saving = sum(m.saving_share for m in members if m.name in pruned.names or not pruned.names)
    predicted = 1 / (1 - min(kept_saving, 0.99))
    layers = _list_layers(search, {p.name: p for p in parts}, pruned, whole_call)
    result = OptimizedModel(composed, layers, predicted, pruned.speedup, pruned.parity, recording)
    observer.note(result.report().partition("\n")[0])
    return result


def _make_part(
    recording: Recording, region: LayerRegion, winner: OptimizedModule, lost: dict[str, str]
) -> Part:
    """The layers whose graph is the searched one's, and the saving that the search measured for them."""

    example, first, *equal_paths = recording.example(region), *region.chosen
    graph = winner.graph
    equal, different = list_equal_layers(
        graph, equal_paths, lambda path: export_layer(example, recording.model.get_submodule(path))
    )
    if different:
        lost[f"{region.kind} ({', '.join(different)})"] = f"its graph is not that of {first}"
    paths = (first, *equal)
    best = winner.summary.best if winner.summary is not None else None
    saved = 1 - 1 / best.speedup_eager.median if best is not None else 0.0
    return Part(region.name, winner, paths, region.share * saved * len(paths) / len(region.paths), equal)


def _find_whole(
    model: torch.nn.Module, run: Run, recording: Recording, replaced: Sequence[LayerRegion]
) -> WholeCall | None:
    """The calls to capture as one CUDA graph, unless all of them are kernels of one part, which replays them itself. It is predicted to save what
    the host takes to call the replaced layers.
    """
    whole_call = choose_whole_call(model, run, recording, [layer for r in replaced for layer in r.chosen])
    if whole_call is None:
        return None
    calls = sum(r.calls * len(r.chosen) / len(r.paths) for r in replaced)
    return replace(
        whole_call, saving_share=min(0.5, calls * CALL_S[recording.device] / recording.workload.seconds)
    )


def choose_whole_call(
    model: torch.nn.Module, run: Run, recording: Recording, layers: Sequence[str] = ()
) -> WholeCall | None:
    """The best calls to capture that the run makes, and that are not all inside of one of the replaced `layers`."""
    for region, example in recording.find_whole_calls():
        (path,) = region.paths
        if not any(is_inside(path, layer) for layer in layers) and (path or calls_stand_in(run, model)):
            return WholeCall(f"{region.name} as one CUDA graph", path, example.args, example.kwargs)
    return None


def _prune(
    model: torch.nn.Module, run: Run, composition: Composition,
    parts: Sequence[Part | WholeCall], seed: int, seconds: float, lock: DeviceLock, observer: Observer,
) -> Pruned:  # fmt: skip
    observer.stage("running the original for its outputs, with rounding at random, and in float64")
    truth = find_truth(run, unwrap(model), seed)
    chaos = truth.find_chaos()

    def check(names: Sequence[str]) -> Parity:
        observer.stage(f"comparing the outputs with {counted(len(names), 'region')} replaced")
        composition.use(names)
        composition.reset_counts()
        if wrong := composition.find_wrong_replays():
            return Parity(ok=False, error=float("inf"), detail=f"as one CUDA graph: {wrong}")
        outputs = collect_outputs(run, composition.model, seed)
        parity = truth.compare(outputs)
        return parity.model_copy(update={"ok": False, "detail": chaos}) if chaos else parity

    def measure(sets: Mapping[str, Sequence[str]]) -> Blocks:
        observer.stage("measuring the whole run side by side")
        variants: dict[str, Callable[[], Callable[[], Any]]] = {ORIGINAL: lambda: partial(run, model)}
        variants |= {label: partial(_make_ready, composition, run, names) for label, names in sets.items()}
        with lock.hold_exclusive():
            return measure_side_by_side(variants, seconds, seed)

    return prune({p.name: p.saving_share for p in parts}, check, measure, composition.describe_idle)


def _make_ready(composition: Composition, run: Run, names: Sequence[str]) -> Callable[[], Any]:
    composition.use(names)
    return partial(run, composition.model)


def _list_layers(
    search: ModelSearch, parts: Mapping[str, Part], pruned: Pruned | None, whole_call: WholeCall | None = None
) -> tuple[ReplacedLayers, ...]:
    """Tell what became of each region, those in the model first."""
    layers = []
    for name, (region, winner) in search.winners.items():
        part = parts.get(name)
        reason = "" if pruned is None else pruned.dropped.get(name, "")
        best = winner.summary.best if winner.summary is not None else None
        layers.append(
            ReplacedLayers(
                name=name, paths=part.paths if part else region.chosen, speedup=best.speedup_eager if best else None,
                predicted_gain=1 / (1 - min(part.saving_share, 0.99)) if part else 1.0,
                in_model=pruned is not None and name in pruned.names, reason=reason,
            )
        )  # fmt: skip
    if whole_call is not None and pruned is not None:
        reason, is_in = pruned.dropped.get(whole_call.name, ""), whole_call.name in pruned.names
        gain = 1 / (1 - whole_call.saving_share)
        layers.append(
            ReplacedLayers(name=whole_call.name, paths=(whole_call.path,), predicted_gain=gain, in_model=is_in, reason=reason)
        )  # fmt: skip
    layers += [ReplacedLayers(name=name, paths=(), reason=reason) for name, reason in search.lost.items()]
    return tuple(sorted(layers, key=lambda layer: not layer.in_model))

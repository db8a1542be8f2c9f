"""A copy of a model in which layers are replaced by their optimized ones, each part of it switched on and off by name.

In: the model and the winners: an `OptimizedModule` over the first of some equal layers, and the paths of all of them; on a GPU also a
call of the whole to capture as one CUDA graph. Out: `Composition`, whose parameters are the original's and whose buffers are its own.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import torch

from ..errors import TaskError, UsageError
from ..records import Graph
from ..runtime.full_graph import FullGraph
from ..runtime.module import OptimizedModule
from ..runtime.stand_in import StandIn
from .whole_call import WholeCall, find_difference


@dataclass(frozen=True)
class Part:
    """The winner of one region: kernels, and the layers that take them."""

    name: str
    winner: OptimizedModule
    paths: tuple[str, ...]
    saving_share: float  # predicted, of the model's time
    calls: Mapping[str, str] = field(
        default_factory=dict
    )  # by path: how the layer's arguments nest, where it was exported


@dataclass
class Slot:
    """One layer's place in the copy: everywhere that it is held, and what may stand there."""

    holders: list[tuple[torch.nn.Module, str]]
    original: torch.nn.Module
    optimized: StandIn


@dataclass
class Composition:
    """The composed model. `use` says which parts are in."""

    copied: torch.nn.Module
    slots: dict[str, list[Slot]] = field(default_factory=dict)  # by part
    active: tuple[str, ...] = ()
    whole_call: WholeCall | None = None  # the part that is one CUDA graph
    _graphs: dict[frozenset[str], FullGraph] = field(default_factory=dict)

    def use(self, names: Iterable[str]) -> None:
        """Put the optimized layers of these parts in, and the copies of the original ones everywhere else."""
        self.active = tuple(names)
        self._choose_graph()
        for name, slots in self.slots.items():
            for slot in slots:
                for holder, attribute in slot.holders:
                    holder._modules[attribute] = slot.optimized if name in self.active else slot.original

    def _choose_graph(self) -> None:
        """Each set of parts has a graph of its own: to go back to a set that was in before captures nothing again."""
        if self.whole_call is None or self.whole_call.name not in self.active:
            return
        (slot,) = self.slots[self.whole_call.name]
        key = frozenset(self.active)
        if key not in self._graphs:
            self._graphs[key] = self.whole_call.stand_in_for(slot.original)
        slot.optimized = self._graphs[key]

    def find_wrong_replays(self) -> str:
        """Return how replays of the whole answer otherwise than what was captured; empty where they do not, or the whole is not in. Layers inside may
        be called here for the last time; what the whole answers here does not count as called by the model.
        """
        graph = self._graphs.get(frozenset(self.active))
        if graph is None or self.whole_call is None:
            return ""
        difference = find_difference(graph, self.whole_call)
        graph.reset_counts()
        return difference

    @property
    def model(self) -> torch.nn.Module:
        """Return the model as it is now."""
        roots = [s.optimized for n in self.active for s in self.slots[n] if s.original is self.copied]
        return roots[0] if roots else self.copied

    def describe_idle(self, name: str) -> str:
        """Return why no kernel of a part has run; empty where one has."""
        modules = [slot.optimized for slot in self.slots[name]]
        if any(m.fast_calls for m in modules):
            return ""
        return next((m.last_fallback for m in modules if m.last_fallback), "the model never calls it")

    def reset_counts(self) -> None:
        """Forget which calls the kernels answered so far."""
        for slot in (s for slots in self.slots.values() for s in slots):
            slot.optimized.reset_counts()


def compose(
    model: torch.nn.Module, parts: Iterable[Part], whole_call: WholeCall | None = None
) -> Composition:
    """Copy the model and make a place for every part; none is in yet. Raises UsageError for a model that cannot be copied."""
    composition = Composition(copy_model(model))
    holders: dict[int, list[tuple[torch.nn.Module, str]]] = {}
    for holder in composition.copied.modules():
        for name, child in holder._modules.items():
            holders.setdefault(id(child), []).append((holder, name))
    for part in parts:
        layers = [(path, composition.copied.get_submodule(path)) for path in part.paths]
        composition.slots[part.name] = [
            Slot(
                holders.get(id(layer), []),
                layer,
                rebind_in_mode(part.winner, layer, model.get_submodule(path), part.calls.get(path, "")),
            )
            for path, layer in layers
        ]
    if whole_call is not None:
        module, composition.whole_call = composition.copied.get_submodule(whole_call.path), whole_call
        slot = Slot(holders.get(id(module), []), module, whole_call.stand_in_for(module))
        composition.slots[whole_call.name] = [slot]
    return composition


def copy_model(model: torch.nn.Module) -> torch.nn.Module:
    """Copy the modules and buffers of a model; parameters stay shared. Raises UsageError."""
    shared = {id(p): p for p in model.parameters()}
    try:
        return copy.deepcopy(model, shared)
    except Exception as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise UsageError(
            f"{type(model).__name__} cannot be copied ({reason}): make copy.deepcopy(model) work, or optimize one of its layers"
        ) from error


def rebind_in_mode(
    winner: OptimizedModule, layer: torch.nn.Module, original: torch.nn.Module, call: str = ""
) -> OptimizedModule:
    """Put the kernels over the layer, which answers in the training modes that the winner was made in. `call`: as `rebind` takes it."""
    modes = [watched.form.training for watched in winner._watched]
    parts = list(layer.modules())
    before = [part.training for part in original.modules()]
    for part, mode in zip(parts, modes, strict=True):
        part.training = mode
    try:
        return winner.rebind(layer, call)
    finally:
        for part, mode in zip(parts, before, strict=True):
            part.training = mode


def list_equal_layers(
    graph: Graph, paths: Iterable[str], export: Callable[[str], Graph]
) -> tuple[dict[str, str], list[str]]:
    """Tell the layers whose exported graph is this one, with their `Graph.call`, from those that only look alike: kernels answer for the
    former.
    """
    equal: dict[str, str] = {}
    different: list[str] = []
    for path in paths:
        try:
            exported = export(path)
        except TaskError:
            different.append(path)
            continue
        if describe_graph(exported) == describe_graph(graph):
            equal[path] = exported.call
        else:
            different.append(path)
    return equal, different


def describe_graph(graph: Graph) -> str:
    """Write a graph without the lines of the source that its nodes come from, and without the nesting of its arguments: a layer has its own
    part of a cache that all are given.
    """
    nodes = tuple(node.model_copy(update={"where": ""}) for node in graph.nodes)
    return graph.model_copy(update={"nodes": nodes, "call": ""}).id

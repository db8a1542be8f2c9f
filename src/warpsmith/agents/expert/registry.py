"""Which families there are for a target: in C++ for "cpu", in CUDA C++ for "cuda"; and which is a region's."""

from __future__ import annotations

from collections.abc import Mapping

from ...records import Graph, Region
from . import families, families_cuda
from .families import FOLD, AnchoredFamily, Family
from .folding import folded_region


def families_of(target: str) -> Mapping[str, Family]:
    """By name, most specific first; none for a target that the expert does not write for."""
    return {"cpu": families.FAMILIES, "cuda": families_cuda.FAMILIES}.get(target, {})


def anchored_of(target: str) -> tuple[AnchoredFamily, ...]:
    """Those that cut their own regions."""
    return {"cpu": families.ANCHORED, "cuda": families_cuda.ANCHORED}.get(target, ())


def target_of(language: str) -> str:
    """Of a unit's language."""
    return "cuda" if language == "cuda" else "cpu"


def family_of(graph: Graph, region: Region, target: str = "cpu") -> Family | None:
    """The most specific family of a target that has something to offer for one of the region's nodes."""
    folds = folded_region(graph, region) is not None  # the library's map is in it, which others do not write
    for family in families_of(target).values():
        if not any(family.covers(graph, graph.by_name[n]) for n in region.nodes):
            continue
        if isinstance(family, AnchoredFamily):
            if family.anchor(graph, region) is not None:
                return family
        elif not folds or family is FOLD:
            return family
    return None

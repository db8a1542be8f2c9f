"""All families of kernels, by target: in C++ for "cpu", in CUDA C++ for "cuda"; and which is a region's.

Each folder lists its own in `<folder>_families.FAMILIES`: a new folder needs no other place. Both targets cover the same nodes
under the same names.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from ..codegen.rewrites.folding import match_folded_region
from ..records import Graph, Region
from .anchored import AnchoredFamily
from .family import Family, Listed
from .fold.fold import FOLD
from .library.library import LIBRARY


@cache
def families_of(target: str) -> Mapping[str, Family]:
    """By name, most specific first; none for a target that the expert does not write for."""
    listed = sorted((f for f in _list_all() if f.target == target), key=lambda f: f.rank)
    return {f.family.name: f.family for f in listed}


@cache
def list_anchored_families(target: str) -> tuple[AnchoredFamily, ...]:
    """List the families that cut their own regions; the others share the planner's growth and the lowering."""
    return tuple(f for f in families_of(target).values() if isinstance(f, AnchoredFamily))


def target_of(language: str) -> str:
    """Return the target of a unit's language."""
    return "cuda" if language == "cuda" else "cpu"


def family_of(graph: Graph, region: Region, target: str = "cpu") -> Family | None:
    """The most specific family of a target that has something to offer for one of the region's nodes."""
    # A call of the library is in a region that folds or that it could do in another way: the lowering does not write that.
    folds = match_folded_region(graph, region) is not None
    has_alternative = LIBRARY.name in families_of(target) and LIBRARY.matches(graph, region)
    for family in families_of(target).values():
        if not any(family.covers(graph, graph.by_name[n]) for n in region.nodes):
            continue
        if isinstance(family, AnchoredFamily):
            fits = family.anchor(graph, region) is not None
            fits = fits and (not has_alternative or family.can_write_chains(graph, region))
        elif family is LIBRARY:
            fits = has_alternative
        else:
            fits = folds if family is FOLD else not (folds or has_alternative)
        if fits:
            return family
    return None


@cache
def _list_all() -> tuple[Listed, ...]:
    """List what the folders beside this module offer."""
    package = __package__ or ""
    folders = [m.name for m in iter_modules(import_module(package).__path__) if m.ispkg]
    return tuple(f for n in folders for f in import_module(f"{package}.{n}.{n}_families").FAMILIES)

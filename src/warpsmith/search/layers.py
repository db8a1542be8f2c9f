"""Equal layers are one region: what is found for one of them is used for all.

In: a graph and units for some of its regions. Out: units of one technique and one setting have one source for all twins (`tasks.twins`), so
that it is built once, and changed in all of them at a time. Names of values aside, that is what they would have been written as.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..records import Graph, Region, Unit
from ..tasks.twins import find_twins


def rebind(unit: Unit, region: Region) -> Unit:
    """Return the unit for a twin of its region."""
    return unit if unit.region.id == region.id else unit.model_copy(update={"region": region})


def share_sources(graph: Graph, units: Sequence[Unit]) -> tuple[Unit, ...]:
    """Give units for twins, of one technique and one setting, the source of the first of them."""
    twins = find_twins(graph, [u.region for u in units])
    first: dict[tuple[str, str], Unit] = {}
    shared = []
    for unit in units:
        key = twins[unit.region.id], _describe_unit(unit)
        shared.append(rebind(first.setdefault(key, unit), unit.region) if unit.compiled else unit)
    return tuple(shared)


def list_alike(graph: Graph, units: Sequence[Unit], unit: Unit) -> set[str]:
    """Return the regions of the units that do for a twin what `unit` does for its region; its own is one."""
    twins = find_twins(graph, [unit.region, *(u.region for u in units)])
    form, first = _describe_unit(unit), twins[unit.region.id]
    return {u.region.id for u in units if twins[u.region.id] == first and _describe_unit(u) == form}


def _describe_unit(unit: Unit) -> str:
    setting = [*map(str, sorted(unit.current_values.items())), *sorted(unit.flags), *unit.requires]
    return "\n".join([unit.language, unit.family, unit.technique, *setting])


__all__ = ["list_alike", "rebind", "share_sources"]

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
    by_region, first = {u.region.id: u for u in units}, _find_first(graph, units)
    return tuple(rebind(by_region[first[u.region.id]], u.region) if u.compiled else u for u in units)


def list_alike(graph: Graph, units: Sequence[Unit], unit: Unit) -> set[str]:
    """Return the regions of the units that do for a twin what `unit`, one of them, does for its region; its own is one."""
    first = _find_first(graph, units)
    return {region for region in first if first[region] == first[unit.region.id]}


def _find_first(graph: Graph, units: Sequence[Unit]) -> dict[str, str]:
    """Return region id → the first region of the units that is its twin and has the same technique and setting."""
    twins, first = find_twins(graph, [u.region for u in units]), dict[tuple[str, str], str]()
    return {
        u.region.id: first.setdefault((twins[u.region.id], _describe_setting(u)), u.region.id) for u in units
    }


def _describe_setting(unit: Unit) -> str:
    setting = [*map(str, sorted(unit.current_values.items())), *sorted(unit.flags), *unit.requires]
    return "\n".join([unit.language, unit.family, unit.technique, *setting])


__all__ = ["list_alike", "rebind", "share_sources"]

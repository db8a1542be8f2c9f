"""Equal layers are one region: one source, one change, one measurement for all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from scripted_search import searched
from test_predict import Timed, unrolled

from warpsmith.judge.screening import find_alike
from warpsmith.records import Candidate, Lineage, Task, Tunable, Unit
from warpsmith.search.layers import list_alike, rebind, share_sources
from warpsmith.search.loop import Search
from warpsmith.testing import FakeBrain, chain_region, chain_task

LAYERS = 3
TASK = chain_task(("aten.exp.default",) * LAYERS)
MIXED = chain_task(("aten.exp.default", "aten.neg.default", "aten.exp.default"))


NODE_US = dict.fromkeys(("n0", "n1", "n2"), 60.0)


class TimedLayers(Timed):
    """A judge by the microseconds of a unit alone, of three operations that take the library equally long."""

    def _whole(self, candidate: Candidate) -> float:
        covered = {n for u in candidate.units for n in u.region.nodes}
        rest = sum(us for name, us in NODE_US.items() if name not in covered)
        return rest + sum(self._us(u) + 4.0 for u in candidate.units)


def differ(unit: Unit) -> float:
    """The second layer is the faster the less it is unrolled."""
    return 6.0 * unit.values["UNROLL"] if unit.region.nodes == ("n1",) else unrolled(unit)


def search_layers(task: Task, brain: FakeBrain, us: Callable[[Unit], float] = unrolled) -> Search:
    search = searched(TimedLayers(us), brain=brain, evaluations=8, patience=9, task=task, run=False)
    search.facts = replace(search.facts, node_us=NODE_US, total_us=180.0)
    search.run()
    return search


def make_unit(number: int, unroll: int = 1, source: str = "", task=TASK) -> Unit:
    region = chain_region(task.graph, number, number)
    tunable = Tunable(name="UNROLL", domain=(1, 2, 4), value=unroll)
    return Unit(
        region=region, language="c++", source=source or f"float n{number}(UNROLL);", tunables=(tunable,), family="fake", technique="a"
    )  # fmt: skip


def test_units_of_equal_layers_at_one_setting_have_one_source() -> None:
    units = [make_unit(0), make_unit(1), make_unit(2, unroll=4)]
    shared = share_sources(TASK.graph, units)
    assert [u.region.id for u in shared] == [u.region.id for u in units]
    assert [u.source for u in shared] == [units[0].source, units[0].source, units[2].source]
    mixed = [make_unit(number, task=MIXED) for number in range(LAYERS)]
    assert [u.source for u in share_sources(MIXED.graph, mixed)] == [
        mixed[0].source, mixed[1].source, mixed[0].source,
    ]  # fmt: skip


def test_what_is_alike_is_in_equal_layers_at_one_setting() -> None:
    units = [make_unit(0), make_unit(1), make_unit(2, unroll=4)]
    assert list_alike(TASK.graph, units, units[0]) == {units[0].region.id, units[1].region.id}
    assert list_alike(TASK.graph, units, units[2]) == {units[2].region.id}
    assert rebind(units[0], units[0].region) is units[0]


def test_all_equal_layers_change_together_and_one_measurement_tells_of_all() -> None:
    """Three layers with three techniques at six settings are as quickly searched as one."""

    class Layers(FakeBrain):
        def write_units(self, graph, hypothesis, m, situation=None):
            units = super().write_units(graph, hypothesis, m, situation)
            name = hypothesis.region.nodes[0]  # as emitters name what they write
            return [u.model_copy(update={"source": f"{u.source} // {name}\nfloat {name};"}) for u in units]

    search = search_layers(TASK, Layers())
    predicted = [a.candidate for a in search.attempts if len(a.candidate.units) == LAYERS]
    assert len(predicted) > 4
    for candidate in predicted:
        assert len({u.source for u in candidate.units}) == 1
        assert len({tuple(u.values.items()) for u in candidate.units}) == 1
    best = search.situation().best
    assert best is not None
    assert {u.values["UNROLL"] for u in best.candidate.units} == {4}


def test_layers_that_differ_are_searched_apart() -> None:
    search = search_layers(MIXED, FakeBrain(), differ)
    settings = [[tuple(u.values.items()) for u in a.candidate.units] for a in search.attempts]
    full = [s for s in settings if len(s) == LAYERS]
    assert any(s[0] != s[1] for s in full)
    assert all(s[0] == s[2] for s in full)


def test_screening_tries_one_unit_for_all_that_have_its_code() -> None:
    units = share_sources(TASK.graph, [make_unit(0), make_unit(1), make_unit(2, unroll=4)])
    candidate = Candidate(task_id=TASK.id, target="cpu", units=units, lineage=Lineage())
    first, second, third = (u.region.id for u in units)
    assert find_alike(TASK.graph, candidate) == {first: first, second: first, third: third}
    apart = Candidate(task_id=TASK.id, target="cpu", units=(make_unit(0), make_unit(1)), lineage=Lineage())
    assert set(find_alike(TASK.graph, apart).values()) == {first, second}  # two sources are two programs

"""A unit's code key says whether another unit may share its build and its verdict."""

from __future__ import annotations

import pytest

from warpsmith.records import Candidate, Tunable, Unit
from warpsmith.testing import chain_graph, chain_region

UNIT = Unit(
    region=chain_region(chain_graph(), 0, 0), language="c++", source="//",
    tunables=(Tunable(name="UNROLL", domain=(1, 2), value=1),),
)  # fmt: skip
OTHER_CODE = {
    "source": "// other",
    "tunables": (Tunable(name="UNROLL", domain=(1, 2), value=2),),
    "flags": ("-O2",),
    "region": chain_region(chain_graph(), 0, 1),
    "requires": ("in0_shape[0] % 4 == 0",),  # they stand in task.h, and excuse a variant
    "atomics": True,  # decides what the second run is held to
    "rewrite": chain_graph(),  # decides what it is measured against
}
SAME_CODE = {
    "family": "llm",
    "technique": "renamed",
    "tunables": (Tunable(name="UNROLL", domain=(1, 2, 4), value=1),),
}


def keys(unit: Unit) -> tuple[str, str]:
    return unit.code_key, Candidate(task_id="t", target="cpu", units=(unit,)).content_key


@pytest.mark.parametrize("field", OTHER_CODE)
def test_what_decides_build_or_verdict_decides_the_keys(field: str) -> None:
    other = UNIT.model_copy(update={field: OTHER_CODE[field]})
    assert all(a != b for a, b in zip(keys(UNIT), keys(other), strict=True))


@pytest.mark.parametrize("field", SAME_CODE)
def test_what_only_names_a_unit_does_not(field: str) -> None:
    assert keys(UNIT) == keys(UNIT.model_copy(update={field: SAME_CODE[field]}))


def test_keys_of_units_that_declare_nothing_are_those_of_archives_written_before() -> None:
    plain = Unit(region=UNIT.region.model_copy(update={"signature": "s"}), language="c++", source="//")
    assert plain.code_key == "23e8d0461a632433"


def test_a_unit_without_a_rewrite_is_stored_as_before_there_were_any() -> None:
    plain = Unit(region=UNIT.region.model_copy(update={"signature": "s"}), language="c++", source="//")
    candidate = Candidate(task_id="t", target="cpu", units=(plain,))
    assert "rewrite" not in candidate.model_dump_json()
    assert (plain.id, candidate.id) == ("02e35c2b00462bd7", "c325c68f9f56057f")


def test_a_rewrite_crosses_a_disk_whole() -> None:
    candidate = Candidate(
        task_id="t", target="cpu", units=(UNIT.model_copy(update={"rewrite": chain_graph()}),)
    )
    again = Candidate.model_validate_json(candidate.model_dump_json())
    assert (again, again.id) == (candidate, candidate.id)
    assert {again.units, candidate.units} == {candidate.units}
    assert Candidate.model_validate(candidate.model_dump(mode="json")) == candidate

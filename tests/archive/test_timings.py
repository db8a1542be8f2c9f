"""What units took on other tasks, read from results: a damaged one gives nothing and stops nobody."""

from __future__ import annotations

import json

import pytest

from warpsmith.archive.timings import TimedUnit, _units, once

SEEN = {
    "region": "r", "seconds": 2e-6, "least_bytes": 8, "flops": 1, "limit_share": 0.5, "bottleneck": "memory", "family": "norm",
    "technique": "registers", "values": {"B": 2, "A": 1}, "flags": ["-O3"],
}  # fmt: skip
GROUP = ("task", "machine")


def test_a_profile_is_read_with_its_settings_in_order() -> None:
    (unit,) = _units(GROUP, json.dumps({"profile": {"regions": [SEEN]}}))
    assert unit == TimedUnit((*GROUP, "r"), "norm", "register-resident", (("A", 1), ("B", 2)), ("-O3",), 2e-6)


@pytest.mark.parametrize(
    "record",
    ["", "no json", "[]", "{}", '{"profile": null}', '{"profile": {"regions": [{"region": 1}]}}', '{"profile": 3}',
     json.dumps({"profile": {"regions": [{**SEEN, "seconds": 0.0}]}}), json.dumps({"profile": {"regions": [{**SEEN, "technique": ""}]}})],
)  # fmt: skip
def test_what_says_nothing_gives_nothing(record: str) -> None:
    assert list(_units(GROUP, record)) == []


def test_what_was_measured_twice_counts_once_at_the_median() -> None:
    units = [TimedUnit(GROUP, "f", "t", (), (), s) for s in (1.0, 5.0, 2.0)]
    assert once(reversed(units)) == [TimedUnit(GROUP, "f", "t", (), (), 2.0)]

"""What a profile says, and that it says nothing where nothing stands out."""

from __future__ import annotations

import pytest

from warpsmith.agents.findings import fastest, findings, list_settled, summary
from warpsmith.records import Candidate, Profile, RegionProfile, Result, Unit
from warpsmith.testing import chain_graph, chain_region, scripted_result

FINE = RegionProfile(
    region="r", seconds=400e-6, least_bytes=8 << 20, flops=1 << 20, limit_share=0.8, bottleneck="memory",
    technique="fused", threads=2, balance=0.98, register_bits=512, vector_bits=512, vector_share=0.9,
)  # fmt: skip


def seen(**changed: object) -> RegionProfile:
    return FINE.model_copy(update=changed)


def kinds(profile: RegionProfile) -> list[str]:
    return [f.kind for f in findings(profile)]


def result(*regions: RegionProfile) -> Result:
    unit = Unit(region=chain_region(chain_graph(), 0, 0), language="c++", source="//")
    made = scripted_result(Candidate(task_id="t", target="cpu", units=(unit,)), 1.5)
    return made.model_copy(update={"profile": Profile(regions=regions)})


def test_a_good_unit_has_no_findings() -> None:
    assert findings(FINE) == []
    assert findings(seen(balance=None, vector_share=None, vector_bits=0)) == []


@pytest.mark.parametrize(
    ("changed", "kind", "words"),
    [
        ({"balance": 0.5}, "uneven", "busy 50% of the time of the busiest"),
        ({"vector_share": 0.2, "calls": ("expf",)}, "scalar", "calls expf one number at a time"),
        ({"vector_bits": 256}, "narrow", "256 bits at a time, where registers have 512"),
        ({"limit_share": 0.4}, "traffic", "its least bytes pass at 21.0 GB/s"),
        ({"limit_share": 0.4, "bottleneck": "compute"}, "arithmetic", "it does 3 GFLOP/s"),
        ({"limit_share": 0.1, "seconds": 9e-6}, "short", "the call and its threads cost more than the work"),
    ],
)
def test_what_stands_out_is_told_with_its_number(changed: dict[str, object], kind: str, words: str) -> None:
    (found,) = findings(seen(**changed))
    assert found.kind == kind
    assert words in found.text
    assert found.gain > 1


def test_a_limit_that_is_beaten_closes_nothing() -> None:
    assert "near" not in kinds(seen(limit_share=7.6, balance=0.5))
    assert kinds(seen(limit_share=1.02)) == ["near"]


def test_near_its_limit_nothing_else_matters() -> None:
    assert kinds(seen(limit_share=0.93, balance=0.5, vector_bits=128)) == ["near"]


def test_no_finding_promises_more_than_the_limit_leaves() -> None:
    (found,) = findings(seen(limit_share=0.85, vector_share=0.0))
    assert 1 < found.gain <= 1 / 0.85


def test_the_fastest_unit_of_a_region_decides_whether_it_is_settled() -> None:
    slow, quick = seen(limit_share=0.5, seconds=8e-4), seen(limit_share=0.95, seconds=4e-4)
    other = seen(region="s", limit_share=0.5)
    assert list_settled([result(slow)]) == {}
    closed = list_settled([result(slow), result(quick, other), result(slow)])
    assert list(closed) == ["r"]
    assert "95% of its limit" in closed["r"].text
    assert fastest([result(slow), result(quick)])["r"] == quick


def test_a_failed_candidate_teaches_nothing_of_speed() -> None:
    failed = result(seen(limit_share=0.99)).model_copy(update={"status": "incorrect", "reason": "wrong"})
    assert list_settled([failed]) == {}


def test_what_could_not_be_seen_is_said() -> None:
    text = summary(seen(balance=None, vector_bits=0, vector_share=None, missing=("width: no objdump",)))
    assert text == "400 us alone, 80% of its limit; not seen: width: no objdump"
    assert "threads balanced 98%, computes on 512 of 512 bits" in summary(FINE)

"""A unit's time beside what its region needs."""

import pytest

from warpsmith.judge.roofline.peaks import Peaks
from warpsmith.judge.roofline.region_profiles import region_profiles
from warpsmith.records import Candidate, Tunable, Unit
from warpsmith.testing import chain_graph, chain_region

GRAPH = chain_graph(("aten.exp.default", "aten.neg.default"), (1024, 1024))
RATES = {1 << 20: 1e10, 1 << 28: 1e10}
PEAKS = Peaks(threads=2, read=RATES, copy_=RATES, stream=RATES, flops=1e11, last_cache=1 << 20)


def unit(first: int, last: int, language: str = "c++") -> Unit:
    return Unit(
        region=chain_region(GRAPH, first, last), language=language, source="//", family="pointwise",
        technique="fused", tunables=(Tunable(name="VEC", domain=(8, 16), value=16),),
    )  # type: ignore[arg-type]  # fmt: skip


def test_a_timed_unit_gets_its_share_of_the_limit() -> None:
    one, two = unit(0, 0), unit(1, 1)
    candidate = Candidate(task_id="t", target="cpu", units=(one, two))
    found = region_profiles(candidate, GRAPH, PEAKS, {one.region.id: 1600.0}, {one.region.id: 0.6}, 2)
    (seen,) = found.regions  # the other one was not timed
    assert (seen.region, seen.technique, seen.values) == (one.region.id, "fused", {"VEC": 16})
    assert seen.least_bytes == 2 * 4 * 1024 * 1024
    assert seen.seconds == pytest.approx(1.6e-3)
    assert seen.limit_share == pytest.approx(8388608 / 1e10 / 1.6e-3, rel=0.01)
    assert (seen.bottleneck, seen.balance, seen.threads) == ("memory", 0.6, 2)
    assert seen.register_bits >= 32


def test_on_a_gpu_nothing_is_said_of_threads_and_vectors() -> None:
    one = unit(0, 1, "cuda")
    candidate = Candidate(task_id="t", target="cuda", units=(one,))
    (seen,) = region_profiles(candidate, GRAPH, PEAKS, {one.region.id: 900.0}, {}, 2).regions
    assert (seen.threads, seen.register_bits, seen.balance) == (0, 0, None)

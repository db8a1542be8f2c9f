"""A result that is told by another limit: every share follows, the result stays the same."""

import pytest

from warpsmith.records import (
    BaselineTiming,
    Limit,
    Profile,
    RegionProfile,
    Result,
    Timing,
    UsedPeaks,
    Verdict,
)

BUSY = Limit(
    seconds=200e-6, least_bytes=2_000_000, flops=1000, bytes_per_second=1e10, flops_per_second=1e11, bound="memory",
    peaks=UsedPeaks(key="aaaaaaaa", measured_at="2026-11-24T10:00:00+00:00", busy=True),
)  # fmt: skip
QUIET = BUSY.model_copy(
    update={
        "seconds": 100e-6, "bytes_per_second": 2e10,
        "peaks": UsedPeaks(key="bbbbbbbb", measured_at="2026-11-25T10:00:00+00:00"),
    }
)  # fmt: skip


def region(bottleneck: str, share: float, flops: int) -> RegionProfile:
    return RegionProfile(
        region="r", seconds=250e-6, least_bytes=2_000_000, flops=flops, limit_share=share, bottleneck=bottleneck
    )  # fmt: skip


def result(limit: Limit | None) -> Result:
    timing = Timing(
        median_us=250.0, low_us=240.0, high_us=260.0, cache="cold", samples=9, ratios=(), limit=limit, limit_share=0.8,
        rewritten=BaselineTiming(name="rewritten", ok=True, median_us=400.0, limit_share=0.5),
    )  # fmt: skip
    return Result(
        candidate_id="c", content_key="k", task_id="t", target="cpu", status="ok",
        verdict=Verdict(correct=True, checks=()), timing=timing,
        profile=Profile(regions=(region("memory", 0.8, 1000), region("memory", 0.8, 15_000_000), region("compute", 0.9, 22_500_000))),
    )  # fmt: skip


def test_every_share_follows_the_limit_and_the_id_stays() -> None:
    before = result(BUSY)
    after = before.restate(QUIET)
    assert after.timing is not None
    assert after.timing.rewritten is not None
    assert after.profile is not None
    assert (after.timing.limit, after.timing.limit_share) == (QUIET, pytest.approx(0.4))
    assert after.timing.rewritten.limit_share == pytest.approx(0.25)
    seen = [(r.bottleneck, r.limit_share) for r in after.profile.regions]
    # Twice the bandwidth: half of the share, unless arithmetic bounds the region, or does so now (150 of 250 us).
    assert seen == [
        ("memory", pytest.approx(0.4)),
        ("compute", pytest.approx(0.6)),
        ("compute", pytest.approx(0.9)),
    ]
    assert after.id == before.id
    assert before.restate(BUSY) is before


def test_a_result_that_names_no_limit_stays_as_it_was_written() -> None:
    assert result(None).restate(QUIET).timing == result(None).timing


def test_a_limit_names_its_peaks() -> None:
    assert BUSY.busy
    assert not QUIET.busy
    assert not QUIET.model_copy(update={"peaks": None}).busy, (
        "nothing was noted before limits named their peaks"
    )
    assert BUSY.peaks is not None
    assert BUSY.peaks.text == "peaks aaaaaaaa of 2026-11-24, busy machine"

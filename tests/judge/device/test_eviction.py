import pytest

from warpsmith import machine
from warpsmith.judge.device import eviction
from warpsmith.judge.device.eviction import flush_bytes
from warpsmith.judge.isolation import runner
from warpsmith.judge.timing import timing_session as timing_field

MOST = eviction.FLUSH_MOST  # as the program has it: tests that measure no time have less


def test_flush_is_four_times_the_last_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eviction, "FLUSH_MOST", MOST)
    caches = machine.cache_bytes()
    assert flush_bytes(64) >= flush_bytes(1) >= min(4 * caches[max(caches)], 256 << 20)


def test_units_and_deployed_calls_are_timed_equally_cold() -> None:
    assert timing_field.flush_bytes is runner.flush_bytes is flush_bytes

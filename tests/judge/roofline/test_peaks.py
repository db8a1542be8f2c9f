"""Peaks: the best of each rate with its conditions, measured again while the machine is busy, kept in a cache."""

import os
import platform
import re
import subprocess
import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith import machine
from warpsmith.errors import ToolchainError
from warpsmith.judge.roofline import peaks as module
from warpsmith.judge.roofline.peaks import (
    ATTEMPTS,
    FLAGS,
    LATELY_S,
    SOURCE,
    Conditions,
    Peaks,
    find_usable_peaks,
    load_peaks,
    measure_peaks,
)

KIB, GB = 1 << 10, 1e9
PEAKS = Peaks(
    threads=2, read={128 * KIB: 200 * GB, 1 << 26: 20 * GB}, copy_={128 * KIB: 150 * GB, 1 << 26: 25 * GB},
    stream={128 * KIB: 50 * GB, 1 << 26: 40 * GB}, flops=100 * GB, last_cache=32 << 20,
)  # fmt: skip


def peaks_of(scale: dict[str, float], day: int, busy: set[str]) -> Peaks:
    """`PEAKS` measured on that day, with some rates scaled, and some from a busy machine."""
    rates = {name: rate * scale.get(name, 1.0) for name, rate in PEAKS.rates.items()}
    conditions = {
        n: Conditions(measured_at=f"2026-11-{day:02d}T00:00:00+00:00", busy=n in busy) for n in rates
    }
    quiet = tuple(sorted(set(rates) - busy))
    return PEAKS.model_copy(update={**module._make_fields(rates), "conditions": conditions, "quiet": quiet})


NAMES = sorted(PEAKS.rates)
SCALES = st.dictionaries(st.sampled_from(NAMES), st.floats(0.25, 4.0))
MEASUREMENTS = st.builds(peaks_of, SCALES, st.integers(1, 28), st.sets(st.sampled_from(NAMES)))


@given(MEASUREMENTS, MEASUREMENTS)
def test_merging_never_lowers_a_rate_and_keeps_its_conditions(one: Peaks, other: Peaks) -> None:
    merged = one.merge(other)
    for name, rate in merged.rates.items():
        assert rate == max(one.rates[name], other.rates[name])
        source = one if one.rates[name] == rate else other
        assert merged.conditions[name] == source.conditions[name]
    assert set(merged.quiet) == {*one.quiet, *other.quiet}
    assert merged.merge(other) == merged == merged.merge(one), "what was merged brings nothing new"
    assert one.merge(one) == one
    assert merged.rates == other.merge(one).rates


def test_cold_and_cached_rates_are_apart() -> None:
    assert PEAKS.cold == {"read": 20 * GB, "copy": 25 * GB, "stream": 40 * GB}
    assert PEAKS.cached == {128 * KIB: 200 * GB}
    assert PEAKS.memory == 40 * GB


def test_peaks_of_unknown_conditions_count_as_busy() -> None:
    old = Peaks.model_validate_json(PEAKS.model_dump_json(exclude={"conditions", "quiet"}))
    assert old.busy
    assert not old.merge(peaks_of({}, 1, set())).busy


class Machine:
    """Measures by a script: how fast, and whether it is busy then."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *script: tuple[float, bool]) -> None:
        self.script, self.told = list(script), list[str]()
        monkeypatch.setattr(module, "_measure", self.measure)

    def measure(self, compiler: str, threads: int) -> Peaks:
        speed, busy = self.script.pop(0)
        day = 28 - len(self.script)
        return peaks_of(dict.fromkeys(NAMES, speed), day, set(NAMES) if busy else set())


def test_a_busy_measurement_is_repeated_and_the_best_is_kept(tmp_path, monkeypatch) -> None:
    scripted = Machine(monkeypatch, (0.5, True), (0.7, True), (0.6, False), (9.0, False))
    told: list[str] = []
    peaks = measure_peaks(tmp_path, 2, progress=told.append)
    assert (peaks.flops, peaks.busy) == (70 * GB, False)
    assert told == [
        f"the machine is busy: measuring its peak rates again ({n} of {ATTEMPTS})" for n in (2, 3)
    ]
    assert measure_peaks(tmp_path, 2) == peaks, "a quiet one is used without measuring"
    assert len(scripted.script) == 1


def test_what_stayed_busy_is_measured_again_but_not_by_the_next_session_at_once(
    tmp_path, monkeypatch
) -> None:
    scripted = Machine(monkeypatch, *[(0.5, True)] * ATTEMPTS, (0.4, False))
    first = measure_peaks(tmp_path, 2)
    assert first.busy
    assert find_usable_peaks(tmp_path, 2) == load_peaks(tmp_path, 2) == first == measure_peaks(tmp_path, 2)
    assert len(scripted.script) == 1
    (file,) = tmp_path.iterdir()
    os.utime(file, (time.time() - LATELY_S - 1,) * 2)
    assert find_usable_peaks(tmp_path, 2) is None
    later = measure_peaks(tmp_path, 2)
    assert (later.flops, later.busy) == (50 * GB, False)
    assert later.conditions["flops"].busy, "conditions are those of the rate that was kept"


def test_a_refresh_measures_again_and_never_gets_worse(tmp_path, monkeypatch) -> None:
    Machine(monkeypatch, (1.0, False), (0.5, False), (2.0, False))
    assert [measure_peaks(tmp_path, 2, refresh=r).flops / GB for r in (False, True, True)] == [100, 100, 200]


def test_bandwidth_never_rises_with_size():
    rates = [PEAKS.bandwidth(s) for s in (1, 128 * KIB, 1 << 20, 1 << 26, 1 << 30)]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] == 200 * GB
    assert PEAKS.memory == 40 * GB


def test_real_peaks_are_sane_and_cached(tmp_path):
    first = measure_peaks(tmp_path, 1)
    assert first.flops > 1e8
    assert 1e8 < first.memory <= first.bandwidth(1)
    assert set(first.conditions) == set(first.rates)
    assert all(0.0 <= c.waited <= 1.0 for c in first.conditions.values())
    assert first.measured_at[:10] == datetime.now(UTC).isoformat()[:10]
    assert first.busy or measure_peaks(tmp_path, 1) == first
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.skipif(platform.machine() != "x86_64", reason="architectures of x86")
@pytest.mark.parametrize(("arch", "register", "chains"), [("x86-64-v3", "ymm", 12), ("x86-64-v4", "zmm", 16)])
def test_multiply_adds_are_measured_in_registers(tmp_path, arch, register, chains):
    """With more sums than there are registers they go through memory: an AVX2 machine once had 4% of its rate."""
    flags = [f"-march={arch}" if f == "-march=native" else f for f in FLAGS]
    command = [machine.find_compiler(), *flags, "-S", str(SOURCE), "-o", str(tmp_path / "stream.s")]
    subprocess.run(command, check=True)
    lines = (tmp_path / "stream.s").read_text().splitlines()
    found = [line for line in lines if re.search(r"\tvfmadd\d+ps\t", line)]
    assert len(found) == chains
    assert all(line.count(f"%{register}") == 3 for line in found), found


def test_a_spoilt_cache_is_measured_again(tmp_path):
    measure_peaks(tmp_path, 1)
    (file,) = tmp_path.iterdir()
    file.write_text("{")
    assert measure_peaks(tmp_path, 1).flops > 0


def test_without_a_compiler(tmp_path):
    with pytest.raises(ToolchainError, match="compiler"):
        measure_peaks(tmp_path, 1, compiler="no-such-compiler")


def test_a_compiler_that_fails_says_why(tmp_path):
    fake = tmp_path / "g++"
    fake.write_text(
        "#!/bin/sh\necho 'stream.cpp:1:1: note: here' >&2; echo 'x.h:3: fatal error: no omp.h' >&2; exit 1"
    )
    fake.chmod(0o755)
    with pytest.raises(
        ToolchainError, match=r"g\+\+ fails: x.h:3: fatal error: no omp.h; `warpsmith doctor`"
    ):
        measure_peaks(tmp_path, 1, compiler=str(fake))

"""`warpsmith.hardware`: which record a device gets."""

from __future__ import annotations

import pytest

from warpsmith.facts import Facts, local_facts
from warpsmith.hardware import A100, CPU, H100, H200, PROFILES, SMEM_KIB_PER_BLOCK, Hardware, hardware_of


def test_a_device_without_a_profile_gets_an_h200s() -> None:
    assert hardware_of("cuda") == hardware_of("cuda", "an unknown GPU") == H200
    assert hardware_of("cpu", "NVIDIA H200") == CPU


@pytest.mark.parametrize("device", PROFILES)
def test_facts_of_a_known_device_read_its_profile(device: str) -> None:
    assert Facts(threads=1, target="cuda", device=device).hardware == PROFILES[device]
    assert Facts(threads=1, device=device).hardware == CPU


def test_the_count_of_multiprocessors_is_rounded_to_the_nearest_power_of_two() -> None:
    assert [hardware.sm_count_rounded for hardware in (H200, A100)] == [128, 128]


def test_stores_pass_the_cache_by_from_a_share_of_it_on() -> None:
    assert (H200.streamed_bytes, A100.streamed_bytes) == (32 << 20, 26843545)


def test_moving_bytes_takes_longer_at_a_smaller_share_of_the_rate() -> None:
    assert H200.dram_us(4e12) == pytest.approx(1e6)
    assert H200.dram_us(4e12, 0.5) == pytest.approx(2e6)
    assert H100.dram_us(1e9) > H200.dram_us(1e9)


def test_a_unit_takes_more_in_a_candidate_on_a_cpu_and_less_on_a_gpu() -> None:
    assert CPU.in_candidate_us(5.0) == pytest.approx(9.0)
    assert H200.in_candidate_us(50.0) == pytest.approx(46.0)
    assert H200.in_candidate_us(5.0) == pytest.approx(2.0)  # of a short kernel a share stays


@pytest.mark.parametrize(("hardware", "capability"), [(H200, "90"), (H100, "90"), (A100, "80")])
def test_profiles_have_the_shared_memory_of_their_architecture(hardware: Hardware, capability: str) -> None:
    assert hardware.smem_bytes_per_block >> 10 == SMEM_KIB_PER_BLOCK[capability]


def test_rates_that_nothing_measured_yet_are_the_profiles() -> None:
    facts = local_facts("cuda")
    assert (facts.bandwidth, facts.flop_rate) == (H200.dram_bytes_per_s, H200.fp32_flops_per_s)

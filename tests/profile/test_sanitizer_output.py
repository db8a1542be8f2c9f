"""Reports in the documented formats of GCC's sanitizers and of compute-sanitizer, read to one line each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.profile.sanitizer_output import (
    find_address_error,
    find_bulk_copies,
    find_write_addresses,
    parse_compute_sanitizer,
)

BUFFERS = (
    "buffer in0 0x7f0000001000 3204\nbuffer out0 0x7f0000005000 3204\nbuffer workspace 0x7f0000009000 0\n"
)
ASAN = (
    BUFFERS
    + """\
=================================================================
==12==ERROR: AddressSanitizer: use-after-poison on address 0x7f0000001c84 at pc 0x55d bp 0x7ffd sp 0x7ffc
READ of size 4 at 0x7f0000001c84 thread T0
    #0 0x55d in unit /tmp/x/unit.cpp:14
    #1 0x55e in warpsmith_run task.h:40
"""
)
MEMCHECK = """\
buffer in0 0x7f2400000000 400
========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 4 bytes
=========     at copy_kernel(const float *, float *)+0x90 in unit.cu:12
=========     by thread (100,0,0) in block (0,0,0)
=========     Access at 0x7f2400000190 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f2400000000 of size 400 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========
========= Program hit cudaErrorLaunchFailure (error 719) due to "unspecified launch failure" on CUDA API call to cudaDeviceSynchronize.
=========     Saved host backtrace up to driver entry point at error
=========
========= ERROR SUMMARY: 2 errors
"""
RACECHECK = """\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at sum_kernel(float *)+0x1d0 in unit.cu:20
=========     and Read access at sum_kernel(float *)+0x210 in unit.cu:21 [124 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
INITCHECK = """\
========= COMPUTE-SANITIZER
========= Uninitialized __global__ memory read of size 4 bytes
=========     at sum_kernel(float *)+0x70 in unit.cu:9
=========     by thread (0,0,0) in block (0,0,0)
=========     Access at 0x7f2400000200
=========
========= ERROR SUMMARY: 1 error
"""
SYNCCHECK = """\
========= COMPUTE-SANITIZER
========= Barrier error detected. Divergent thread(s) in block.
=========     at sum_kernel(float *)+0x120 in unit.cu:15
=========     by thread (32,0,0) in block (0,0,0)
=========
========= ERROR SUMMARY: 1 error
"""
CLEAN = "buffer in0 0x7f 4\n========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"


def test_an_address_is_told_by_its_buffer() -> None:
    found = find_address_error(ASAN)
    assert found == (
        "address", "read of 4 bytes outside in0, 0 bytes past its end (unit.cpp:14) [use-after-poison]"
    )  # fmt: skip


def test_a_signal_is_told_by_its_access() -> None:
    text = BUFFERS + "==1==ERROR: AddressSanitizer: SEGV on unknown address 0x7f0000004ff0 (pc 0x1)\n"
    text += "==1==The signal is caused by a WRITE memory access.\n"
    assert find_address_error(text) == ("address", "write outside out0, 16 bytes before its start [SEGV]")


def test_undefined_behaviour_is_told_by_its_line() -> None:
    text = BUFFERS + "unit.cpp:9:15: runtime error: division by zero\n    #0 0x1 in unit unit.cpp:9\n"
    assert find_address_error(text) == ("undefined", "division by zero (unit.cpp:9)")


@pytest.mark.parametrize(
    ("output", "first", "count"),
    [
        (MEMCHECK, "Invalid __global__ read of size 4 bytes, at copy_kernel(const float *, float *)+0x90 in unit.cu:12, "
                   "and is 1 bytes after the nearest allocation at 0x7f2400000000 of size 400 bytes", 2),
        (RACECHECK, "Race reported between Write access at sum_kernel(float *)+0x1d0 in unit.cu:20, "
                    "and Read access at sum_kernel(float *)+0x210 in unit.cu:21 [124 hazards]", 1),
        (INITCHECK, "Uninitialized __global__ memory read of size 4 bytes, at sum_kernel(float *)+0x70 in unit.cu:9", 1),
        (SYNCCHECK, "Barrier error detected. Divergent thread(s) in block., at sum_kernel(float *)+0x120 in unit.cu:15", 1),
    ],
)  # fmt: skip
def test_each_tool_of_compute_sanitizer(output: str, first: str, count: int) -> None:
    found = parse_compute_sanitizer(output)
    assert found[0] == first
    assert len(found) == count


def test_a_race_with_a_bulk_copy_is_told_from_others() -> None:
    """By the instruction at the place of the store, whatever the functions are called."""
    sass = (
        "\t\tFunction : _Z7product\n"
        "        /*5190*/                   SYNCS.ARRIVE.TRANS64 RZ, [UR4], R2 ;   /* 0x00 */\n"
        "        /*51b0*/             @!P0 UBLKCP [UR6], [UR8], UR5 ;              /* 0x00 */\n"
        "                                                                          /* 0x00 */\n"
        "        /*51c0*/                   STS [R4], R5 ;\n"
    )
    race = "Race reported between Write access at ws::bulk_copy(void *, unsigned long *)+0x{} in warpsmith_cuda_wgmma.h:57"
    assert find_bulk_copies(sass) == {0x51B0}
    assert find_write_addresses(race.format("51b0") + ", and Read access at f()+0x1700 in unit.cu:324") == {
        0x51B0
    }
    assert not find_bulk_copies(sass) & find_write_addresses(race.format("51c0"))


def test_what_is_clean_or_no_report_is_no_finding() -> None:
    assert parse_compute_sanitizer(CLEAN) == []
    assert parse_compute_sanitizer("========= Error: No attachable process found\n") == []
    assert find_address_error(BUFFERS) is None


@given(st.text(max_size=300))
def test_no_text_breaks_a_parser(text: str) -> None:
    assert all(isinstance(line, str) and line for line in parse_compute_sanitizer(text))
    found = find_address_error(text)
    assert found is None or found[0] in ("address", "undefined")

import resource
import subprocess
import sys

import pytest

from warpsmith.judge.timing.heap import PAGE, Holes, at_rest

SCRIPT = """
import resource, sys
import torch
from warpsmith.judge.timing.heap import Holes, at_rest
at_rest()
size, seen, faults = 4 << 20, set(), []
for _ in range(12):
    holes = Holes([size, size])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    first, second = torch.empty(size, dtype=torch.uint8), torch.empty(size, dtype=torch.uint8)
    first.fill_(1), second.fill_(1)
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    seen.add((first.data_ptr() - second.data_ptr()) % 4096)
    del first, second
    holes.close()
print(len(seen), sorted(faults)[len(faults) // 2])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the layout is glibc's")
def test_arrays_lie_differently_each_time_and_cost_no_page_fault():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    layouts, faults = map(int, done.stdout.split())
    assert layouts >= 6
    assert faults < (4 << 20) // resource.getpagesize()


def test_small_and_huge_sizes_get_no_hole():
    at_rest()
    holes = Holes([0, PAGE, 1 << 40])
    holes.close()
    holes.close()


FRAGMENTS = """
import ctypes
from warpsmith.judge.timing.heap import _libc, at_rest, sweep
at_rest()
size, mark = 48000, 0x5A
taken = [(_libc.malloc(size), _libc.malloc(5000)) for _ in range(40)]
for block, _ in taken:
    ctypes.memset(block, mark, size)
for block, _ in taken:
    _libc.free(block)
sweep({size})
again = [_libc.malloc(size) for _ in range(40)]
stale = [ctypes.string_at(block, size).count(mark) for block in again]
print(sum(block in {b for b, _ in taken} for block in again), max(stale))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the layout is glibc's")
def test_free_memory_that_a_block_may_be_made_of_is_overwritten():
    done = subprocess.run([sys.executable, "-c", FRAGMENTS], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    reused, stale = map(int, done.stdout.split())
    assert reused >= 20
    assert stale < 4096

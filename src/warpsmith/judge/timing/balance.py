"""Balance of a unit's threads: how evenly they share its work, seen from outside of its process.

In: a runner that has run its unit. Out: the processor time of a thread on average over that of the busiest;
1 is even, one over the number of threads means that one does it all. An idle thread of an OpenMP pool spins
for milliseconds, so the unit runs once more in a process whose pool sleeps while it waits; what each thread
then spends on a processor is the scheduler's own account (`/proc/<pid>/task/<tid>/schedstat`, nanoseconds).
It is evidence for whoever writes the next unit, never part of a verdict: a unit that fails here is not
measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from ..isolation.runner import CandidateRunner, RunnerFailed

LEAST_US = 30.0  # of a call: in shorter ones waking the threads outweighs what they do
SPENT_US = 12_000.0  # of calls that are looked at
MOST_CALLS = 128
# The three ways in which libgomp and LLVM's runtime are told not to spin.
SLEEPING: Mapping[str, str] = MappingProxyType(
    {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0", "KMP_BLOCKTIME": "0"}
)


def balance(runner: CandidateRunner, threads: int, call_us: float) -> float | None:
    """`runner` has run its unit and is of no further use; `call_us`: microseconds of a call.

    None where nothing is to be shared or nothing could be measured.
    """
    if threads < 2 or call_us < LEAST_US:
        return None
    calls = max(1, min(MOST_CALLS, int(SPENT_US / call_us)))
    try:
        runner.restart(SLEEPING)
        if calls > 1:
            runner.batch(1, False)  # the first call in a process loads pages and binds symbols
        before = processor_ns(runner.pid)
        runner.batch(calls, False)
        after = processor_ns(runner.pid)
    except RunnerFailed:
        return None
    spent = [after[thread] - before.get(thread, 0) for thread in after]
    return sum(spent) / threads / max(spent) if spent and max(spent) > 0 else None


def processor_ns(pid: int) -> dict[int, int]:
    """Thread id → nanoseconds that it has been on a processor. Empty where the kernel keeps no account."""
    spent: dict[int, int] = {}
    for folder in Path(f"/proc/{pid}/task").glob("[0-9]*"):
        try:
            spent[int(folder.name)] = int((folder / "schedstat").read_text().split()[0])
        except (OSError, ValueError, IndexError):
            continue  # the thread has ended, or there are no such files
    return spent

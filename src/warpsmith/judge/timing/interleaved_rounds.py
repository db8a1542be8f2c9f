"""Interleaved rounds over timed processes, and the check of their clocks against the supervisor's.

In: processes, values files, numbers of rounds and calls. Out: blocks by process and round, and samples: what
a secretly chosen timed call was given, rebuilt here, beside what it returned.
"""

from __future__ import annotations

import math
import random
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import median

from ...errors import JudgeError, WarpsmithError
from ...records import GraphInput
from ..layout import Rows
from .input_perturbation import Slice, replay_perturbation, write_perturbed
from .timed_process import Block, TimedProcess

CALLS_PER_BLOCK = 40  # at most
FEW_CALLS, FEW_SECONDS = 5, 0.05  # a block has so many calls at least, unless they take longer
WARMUP = 2  # calls before a block: the first at these addresses, and one on warm code
ROUNDS = (4, 12)  # of a search measurement: at least, at most …
GPU_ROUNDS = 6  # … on a GPU, whose calls vary less, and others wait for their turn
GPU_MOVES = 4  # rounds between two moves of the values there, which take ten times as long as a block
BLOCK_OVERHEAD_S = 0.01  # to switch to a process: settling, copying small values, warm-up calls
HOPELESS = 0.7  # every ratio of the first rounds below this ends a search measurement
HOPELESS_ROUNDS = 3
CLOCK_NOISE = 0.25  # share of a block's wall time that may be unaccounted for …
CLOCK_SLACK_NS = 3_000_000  # … beyond the round trip of a request on a busy machine
FLUSH_TRUST = 1.5  # a process may say it spent this many times the baselines' time between calls
GPU_TRUST = 1.5  # on a GPU, where every process queues the same work between calls
OTHERS_TRUST = 1.25  # its other threads may work so many times as long between calls as the baselines' …
LATE_SLACK_NS = 20_000  # … and the last change so much longer, less than work that is worth hiding
OTHERS_SLACK_NS = 1_000_000  # … and this much longer: an idle OpenMP pool of its own spins for a while
BETWEEN_SHARE = 0.4  # of what the others need between calls, by the supervisor's clock, is the least …
BETWEEN_SHORT_NS = 500_000  # … where that is more than requests and small copies may take
GPU_AUDIT = 24  # evictions before a call of an audit: a single one is short beside what its host does
AUDIT_CALLS = 6
BATCH_SHARE = 0.5  # a single call takes at least this much of a call's share of a batch …
BUSY_SHARE = 0.4  # of a block, in run queues; of blocks, beside other work on the device
LAUNCH_NS = 25_000  # … less what the host may need to launch each of its steps
HOST_SHARE = 0.8  # of a batch's time that the main thread works where the host takes longer than the device


class ClocksDisagree(WarpsmithError):
    """The process's clock and the supervisor's differ beyond noise: not a measurement."""


class BaselineLost(JudgeError):
    """A baseline's process ended while a candidate was timed; `restart_baselines` and measure again. `name`: the baseline's."""

    def __init__(self, message: str, name: str = "") -> None:
        super().__init__(message)
        self.name = name


@dataclass(frozen=True)
class TimedSample:
    """A timed call's inputs and what it returned, in the layouts of `Graph.inputs` and of the graph's
    output values. The former is `file`, but for what was halved since.
    """

    name: str
    outputs: Path
    rows: tuple[Rows, ...]  # of each output, that the file holds; empty: all
    file: Path
    inputs: Sequence[GraphInput]
    perturbed: Sequence[Slice]
    _path: Path

    @cached_property
    def values(self) -> Path:
        """A file of what the call was given, written when it is first asked for, not while others wait for the device."""
        return write_perturbed(self.file, self.inputs, self.perturbed, self._path)

    def remove(self) -> None:
        for path in (self.outputs, self.__dict__.get("values")):
            if path is not None:
                path.unlink(missing_ok=True)


class InterleavedRounds:
    """Rounds over a fixed set of processes, the one under test first. `blocks[name][r]` is a process's block
    of round r.
    """

    def __init__(
        self,
        processes: Sequence[TimedProcess],
        values: Sequence[Path],
        inputs: Sequence[GraphInput],
        new_path: Callable[[str], Path],
        *,
        cold: bool,
        trust: float = FLUSH_TRUST,
        audit: int = 0,
        rests: bool = False,
        draw_rows: Callable[[], tuple[Rows, ...]] = tuple,
        moves: int = 1,
    ) -> None:
        """`moves`: after so many rounds each process gets other values, at other addresses. `audit`: evictions before each call
        of an audit; 0 where the rounds themselves show whether a process leaves them out. `rests`: all but the first process give back
        their memory after each block. `draw_rows`: draws the rows of
        each output that a sample holds, once the call has ended; none: all.
        """
        self.rests, self.draw_rows, self.moves = rests, draw_rows, moves
        self.trust, self.audit = trust, audit if cold else 0
        self.processes, self.values, self.inputs = processes, values, inputs
        self.new_path, self.cold = new_path, cold
        self.blocks: dict[str, list[Block]] = {p.name: [] for p in processes}
        self.audits: dict[str, Block] = {}
        self.samples: list[TimedSample] = []
        self._last: dict[str, tuple[Path, int, int]] = {}  # values, seed and calls of a process's last block
        self._moved: dict[str, int] = {}  # which of its moves a process was prepared for
        self._noisy: list[bool] = []  # block by block: whether the device had other work
        self._secret = random.Random(secrets.randbits(62))

    def run(self, rounds: int, calls: Sequence[int], race: bool = False, checks: int = 0) -> None:
        """Time `calls[i]` calls of process i in each round.

        `checks`: how many blocks of the process under test give a sample, chosen in secret. `race`: end early
        when it is hopelessly slow. Raises BaselineLost, and WorkerDied, WorkerTimeout or WorkerFailed of the
        process under test.
        """
        tested = self.processes[0]
        chosen = set(self._secret.sample(range(rounds), min(checks, rounds)))
        audited = self._secret.randrange(rounds) if checks and self.audit else None
        for r in range(rounds):
            turn = list(zip(self.processes, calls, strict=True))
            self._secret.shuffle(turn)
            for process, count in turn:
                sampled = r in chosen and process is tested
                # No process knows how many calls follow: the one whose outputs are checked could be any.
                self.blocks[process.name].append(self._block(process, self._length(count, sampled), r))
                if sampled:
                    self.samples.append(self.sample(tested))
                if r == audited:
                    self.audits[process.name] = self._block(process, AUDIT_CALLS, r, self.audit)
                if self.rests and process is not tested:
                    process.rest()
                    del self._moved[process.name]
            if race and r + 1 >= HOPELESS_ROUNDS and self._hopeless():
                break
        if checks and not self.samples:
            self.samples.append(self.sample(tested))

    def _length(self, count: int, sampled: bool) -> int:
        """Calls of a block. One that gives a sample ends anywhere: whoever skips the work in some of the
        calls, by a count of them, say, is found out as often as it skips."""
        if sampled:
            return self._secret.randint(1, count)
        return max(1, count - self._secret.choice((0, 0, 1)))

    def _block(self, process: TimedProcess, n: int, r: int, evictions: int = 1, alone: bool = True) -> Block:
        move = r // self.moves
        values, seed = self.values[move % len(self.values)], self._secret.getrandbits(62)
        try:
            if self.moves > 1 and self._moved.get(process.name) == move:
                process.again(WARMUP)
            else:
                process.prepare(values, WARMUP, alone=alone)
                self._moved[process.name] = move
            self._noisy.append(not process.quiet)
            block = process.block(n, evictions if self.cold else 0, seed)
            process.settle()
        except WarpsmithError as error:
            if process is self.processes[0]:
                raise
            raise BaselineLost(f"the {process.name} baseline failed: {error}", process.name) from error
        self._last[process.name] = (values, seed, n)
        return block

    def _hopeless(self) -> bool:
        candidate = [median(b.ns) for b in self.blocks[self.processes[0].name]]
        baselines = [[median(b.ns) for b in self.blocks[p.name]] for p in self.processes[1:]]
        return bool(baselines) and all(
            min(o[r] for o in baselines) < HOPELESS * t for r, t in enumerate(candidate)
        )

    def agree(self) -> None:
        """Raise ClocksDisagree when the process under test accounts for too little of the wall clock in most
        of its blocks.

        What it may claim between calls is bounded by what the other processes need for the same work.
        """
        baseline_gaps = [b.between_ns / len(b.ns) for p in self.processes[1:] for b in self.blocks[p.name]]
        between = self.trust * median(baseline_gaps) if baseline_gaps else math.inf
        faults = []
        for block in self.blocks[self.processes[0].name]:
            try:
                agree(block, between * len(block.ns))
            except ClocksDisagree as error:
                faults.append(error)
        if 2 * len(faults) > len(self.blocks[self.processes[0].name]):
            raise faults[0]
        self._check_gaps()

    def charge_work_before_calls(self) -> None:
        """Charge the process under test for what its other threads did between its calls, and for what anybody did between the
        last change of the contents and the start of the clock, beyond what is usual: whoever computes before the clock starts
        pays for it.
        """
        others_ns = self._find_excess_ns(lambda block: block.others_ns, OTHERS_SLACK_NS)
        late_ns = self._find_excess_ns(lambda block: block.late_ns, LATE_SLACK_NS)
        excess_ns = max(0, others_ns) + max(0, late_ns)
        if excess_ns > 0:
            tested = self.processes[0].name
            self.blocks[tested] = [_charge(b, excess_ns) for b in self.blocks[tested]]

    def charge_host(self, batch: Block) -> None:
        """Charge the process under test so much that a call takes as long as one of a batch that its host could not launch faster."""
        tested = self.processes[0].name
        calls = self.blocks[tested]
        self.blocks[tested] = [
            _charge(b, round(_find_in_a_row_ns(batch) - _find_claimed_ns(calls))) for b in calls
        ]

    def _find_excess_ns(self, read: Callable[[Block], int], slack_ns: int) -> int:
        """Nanoseconds of a call by which the process under test exceeds the others and what they may differ by."""
        tested, *baselines = (median(read(b) for b in self.blocks[p.name]) for p in self.processes)
        return round(tested - OTHERS_TRUST * max(baselines) - slack_ns) if baselines else 0

    def busy(self) -> str:
        """Whose thread waited for a processor over most of its blocks, and how long; empty when none did.

        Parallel code then takes as long as the scheduler's slices, hundreds of times its own; a baseline that
        waits makes any candidate look fast.
        """
        for process in self.processes:
            share = median(b.stalled_ns / b.wall_ns for b in self.blocks[process.name])
            if share > BUSY_SHARE:
                return f"the {process.name} process waited for a processor {share:.0%} of the time"
        if sum(self._noisy) > BUSY_SHARE * len(self._noisy):
            return "the GPU had other work most of the time"
        return ""

    def _check_gaps(self) -> None:
        """Raise ClocksDisagree for a process that leaves out what lies between cold calls (the flush of the caches): it is timed warm."""
        blocks = {
            p.name: [self.audits[p.name]] if self.audits else self.blocks[p.name] for p in self.processes
        }
        first, *baselines = (
            median((b.wall_ns - sum(b.ns)) / len(b.ns) for b in blocks[p.name]) for p in self.processes
        )
        usual = median(baselines) if baselines else 0.0
        if self.cold and usual > BETWEEN_SHORT_NS and first < BETWEEN_SHARE * usual:
            raise ClocksDisagree(
                f"the process spends {first / 1e3:.0f} µs between calls where {usual / 1e3:.0f} µs are usual: "
                "it leaves out what makes them comparable"
            )

    def sample(self, process: TimedProcess) -> TimedSample:
        """Sample the process's last timed call: what it was given, rebuilt here, and what it returned."""
        if self.rests and process is not self.processes[0]:
            self._block(process, 1, 0, alone=False)
        values, seed, calls = self._last[process.name]
        rows = self.draw_rows()
        outputs = process.outputs(process.folder / f"outputs-{secrets.token_hex(4)}", rows)
        return TimedSample(
            process.name, outputs, rows, values, self.inputs, replay_perturbation(self.inputs, seed, calls),
            self.new_path("given"),
        )  # fmt: skip


def _charge(block: Block, ns: int) -> Block:
    """Make each call of a block so much longer."""
    charged_ns = block.charged_ns + ns * len(block.ns)
    return replace(block, ns=tuple(t + ns for t in block.ns), charged_ns=charged_ns)


def agree_with_batch(calls: Sequence[Block], batch: Block, launches: int) -> None:
    """Raise ClocksDisagree when single calls are said to be far shorter than calls in a row are on the
    supervisor's clock.

    A process that lies about single calls must lie about the batch too, and there nearly all of the
    supervisor's time is the calls' own. `launches`: steps of a call that the host launches one by one; they
    take time in a batch that a single call's events need not hold. So this says little below some 50 µs.
    """
    claimed, in_a_row = _find_claimed_ns(calls), _find_in_a_row_ns(batch)
    if claimed < BATCH_SHARE * in_a_row - LAUNCH_NS * launches:
        raise ClocksDisagree(
            f"the process reports {claimed / 1e3:.1f} µs for a call that takes {in_a_row / 1e3:.1f} µs "
            "in a row on the supervisor's clock"
        )


def is_host_bound(batch: Block) -> bool:
    """Tell by the kernel's account whether the process's main thread worked all the time of a batch. Where it waits for the
    device it sleeps, so a batch of long work on the device is not host-bound, unless somebody lets the host work beside it.
    """
    return batch.worked_ns >= HOST_SHARE * (batch.wall_ns - batch.queued_ns)


def _find_claimed_ns(calls: Sequence[Block]) -> float:
    return median(t for block in calls for t in block.ns)


def _find_in_a_row_ns(batch: Block) -> float:
    return (batch.wall_ns - batch.queued_ns - CLOCK_SLACK_NS) / len(batch.ns)


def plan(
    expected: Sequence[float], seconds: float, gap: float, rounds: int | None, most: int = ROUNDS[1]
) -> tuple[int, list[int]]:
    """(rounds, calls in a block of each process) for calls that take `expected` seconds with `gap` between,
    in about `seconds`. `rounds=None`: as many as fit, `most` at the most.
    """
    share = seconds / len(expected)
    slowest = max(expected) + gap
    if rounds is None:
        rounds = max(ROUNDS[0], min(most, int(share / (BLOCK_OVERHEAD_S + 3 * slowest))))
    room = share / rounds - BLOCK_OVERHEAD_S
    return rounds, [min(CALLS_PER_BLOCK, max(_fewest(e + gap), int(room / (e + gap)))) for e in expected]


def _fewest(seconds: float) -> int:
    """Calls that a block needs for a median, if they are short enough to be worth it."""
    return max(1, min(FEW_CALLS, int(FEW_SECONDS / seconds)))


def agree(block: Block, between_most: float) -> None:
    """Raise ClocksDisagree when a process's times cannot fill the supervisor's clock, or overfill it.

    `between_most`: nanoseconds that the process may honestly claim between its calls. Time in run queues,
    which the kernel accounts for, is not held against it.
    """
    calls_ns = sum(block.ns)
    if calls_ns > block.wall_ns:
        raise ClocksDisagree(
            f"the process reports {calls_ns / 1e6:.2f} ms of calls in {block.wall_ns / 1e6:.2f} ms of wall time"
        )
    hidden = block.wall_ns - calls_ns - min(block.between_ns, between_most) - block.queued_ns
    if hidden > CLOCK_SLACK_NS + CLOCK_NOISE * block.wall_ns:
        raise ClocksDisagree(
            f"the process reports {calls_ns / 1e6:.2f} ms of calls and {block.between_ns / 1e6:.2f} ms between them, of which "
            f"{min(block.between_ns, between_most) / 1e6:.2f} ms are believed, but {hidden / 1e6:.2f} ms more passed on the "
            "supervisor's clock"
        )

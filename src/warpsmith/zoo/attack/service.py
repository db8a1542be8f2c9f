"""The attack service judges many composed candidates, in lanes side by side, and says what came of them.

In: a number of candidates, a seed, settings. Out: `AttackRow`s, as lines of a file while it works. A file that holds rows
already is gone on with. Each lane is a process with processors of its own, where there are two or more for each; torch has one
thread there, so that another processor is free for what a candidate starts beside the clock.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, Queue
from typing import Any

from ...config import Config
from ...errors import UsageError, WarpsmithError
from ...machine import affinity
from ...processes.buffers import Scratch
from ...processes.worker import Worker
from .composing import Composed, compose
from .outcome import Answer, AttackRow, make_row

MODULE = "warpsmith.zoo.attack.lane"
FORMAT = 1
START_SECONDS, JUDGE_SECONDS = 120.0, 1800.0
CHUNK = 24  # candidates of one operator that a lane takes at a time
MIN_PROCESSORS = 2  # of a lane that has its own
THREADS = {"OMP_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Attack:
    """Which candidates to judge, and on what. `only`: one index instead of `count`."""

    count: int
    seed: int
    target: str = "cpu"
    lanes: int = 1
    only: int | None = None

    def indexes(self) -> Sequence[int]:
        return range(self.count) if self.only is None else [self.only]

    def header(self) -> dict[str, Any]:
        return {"attack": FORMAT, "seed": self.seed, "target": self.target}


@dataclass
class Tally:
    """The rows so far, and how fast they came."""

    total: int
    rows: list[AttackRow] = field(default_factory=list)
    judged: int = 0  # in this run
    seconds: float = 0.0

    @property
    def rate_per_minute(self) -> float:
        return 60 * self.judged / self.seconds if self.seconds else 0.0

    @property
    def seconds_left(self) -> float:
        return 60 * (self.total - len(self.rows)) / self.rate_per_minute if self.judged else 0.0

    def describe(self) -> str:
        """Say in a few words what came so far."""
        outcomes = Counter(row.outcome for row in self.rows)
        counts = ", ".join(f"{outcomes[name]} {name}" for name in ("refused", "harmless", "accepted"))
        bad = "".join(
            f", {outcomes[name]} {name}" for name in ("BREACH", "REFUSED", "ERROR") if outcomes[name]
        )
        return f"{counts}{bad}, {self.rate_per_minute:.0f} a minute"


def run_attack(
    attack: Attack,
    config: Config,
    *,
    file: Path | None = None,
    progress: Callable[[Tally], None] = lambda tally: None,
) -> Tally:
    """Judge every candidate that the file does not hold yet. An interrupt ends it early, with what there is so far.

    Raises UsageError when the file is of another attack.
    """
    rows = read_rows(file, attack) if file is not None else []
    known = {row.index for row in rows}
    remaining = [compose(attack.seed, i, attack.target) for i in attack.indexes() if i not in known]
    tally = Tally(len(rows) + len(remaining), rows)
    output = file.open("a", encoding="utf-8") if file is not None else None
    start = time.monotonic()
    try:
        if output is not None and not rows and file is not None and not file.stat().st_size:
            print(json.dumps(attack.header()), file=output, flush=True)
        for row in _judge(remaining, attack, config):
            tally.rows.append(row)
            tally.judged, tally.seconds = tally.judged + 1, time.monotonic() - start
            if output is not None:
                print(json.dumps(vars(row)), file=output, flush=True)
            progress(tally)
    except KeyboardInterrupt:
        pass
    finally:
        if output is not None:
            output.close()
    return tally


def read_rows(file: Path, attack: Attack) -> list[AttackRow]:
    """Read the rows of a file; one that ends within a line was interrupted there. Raises UsageError."""
    if not file.is_file() or not file.stat().st_size:
        return []
    text = file.read_text(encoding="utf-8")
    lines = text.splitlines()
    if not text.endswith("\n"):
        lines.pop()
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    try:
        header, *fields = [json.loads(line) for line in lines]
        rows = [AttackRow(**f) for f in fields]
    except (ValueError, TypeError) as error:
        raise UsageError(f"{file} is no file of an attack: give another to --json") from error
    if header != attack.header():
        raise UsageError(f"{file} is of another attack ({header}): give another to --json")
    indexes = set(attack.indexes())
    return [row for row in rows if row.index in indexes]


def make_chunks(candidates: Sequence[Composed]) -> list[list[Composed]]:
    """Group candidates by what a judge is opened for, in chunks that lanes take."""
    groups: dict[tuple[str, bool], list[Composed]] = {}
    for candidate in candidates:
        groups.setdefault((candidate.operator, candidate.form == "unit"), []).append(candidate)
    return [group[at : at + CHUNK] for group in groups.values() for at in range(0, len(group), CHUNK)]


def split_processors(processors: Sequence[int], lanes: int) -> list[list[int]]:
    """Give each lane processors of its own; none, when there are too few."""
    each = len(processors) // lanes
    if lanes == 1 or each < MIN_PROCESSORS:
        return [[] for _ in range(lanes)]
    return [list(processors[n * each : (n + 1) * each]) for n in range(lanes)]


@contextmanager
def make_cache(config: Config) -> Iterator[Path]:
    """Make a folder for what all lanes build, with what is known of this machine; it goes, also when lanes are killed."""
    root = config.cache / "attack"
    root.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=root))
    try:
        for file in config.cache.glob("peaks-*.json"):
            shutil.copy(file, folder)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _judge(candidates: Sequence[Composed], attack: Attack, config: Config) -> Iterator[AttackRow]:
    """Yield rows as lanes have them. The first lane opens a judge before the others start: what the machine can do is measured then."""
    chunks: Queue[list[Composed]] = Queue()
    for chunk in make_chunks(candidates):
        chunks.put(chunk)
    rows: Queue[AttackRow | Exception | None] = Queue()
    first, stop = threading.Event(), threading.Event()
    count = min(attack.lanes, chunks.qsize())
    with Scratch() as scratch, make_cache(config) as cache:
        lanes = [
            LaneClient(
                attack, config.model_copy(update={"cache": cache}), scratch.new(f"lane-{n}"), processors
            )
            for n, processors in enumerate(split_processors(affinity(), count) if count else [])
        ]
        threads = [
            threading.Thread(target=_run_lane, args=(lane, chunks, rows, first, stop, n > 0), daemon=True)
            for n, lane in enumerate(lanes)
        ]
        for thread in threads:
            thread.start()
        try:
            running = len(threads)
            while running:
                row = rows.get()
                if isinstance(row, Exception):
                    raise row
                running -= row is None
                if row is not None:
                    yield row
        finally:
            stop.set()
            first.set()
            for lane in lanes:
                lane.close()
            for thread in threads:
                thread.join()


def _run_lane(
    lane: LaneClient, chunks: Queue[list[Composed]], rows: Queue[AttackRow | Exception | None],
    first: threading.Event, stop: threading.Event, waits: bool,
) -> None:  # fmt: skip
    if waits:
        first.wait()
    try:
        while not stop.is_set():
            for candidate in chunks.get_nowait():
                if stop.is_set():
                    break
                rows.put(lane.judge(candidate))
                first.set()
    except Empty:
        pass
    except Exception as error:  # noqa: BLE001 - the thread's boundary: the main thread raises it
        if not stop.is_set():
            rows.put(error)
    finally:
        rows.put(None)


class LaneClient:
    """The supervisor's end of a lane. A lane that ends or hangs is started again; its candidate is an error."""

    def __init__(self, attack: Attack, config: Config, folder: Path, processors: Sequence[int]) -> None:
        self._attack, self._config, self._folder, self._processors = attack, config, folder, processors
        self._worker: Worker | None = None
        self._closed = False

    def judge(self, candidate: Composed) -> AttackRow:
        try:
            return AttackRow(**self._start().call("judge", JUDGE_SECONDS, index=candidate.index))
        except WarpsmithError as error:
            if self._closed:
                raise
            self._end()
            return make_row(candidate, Answer("error", reason=f"the lane failed: {error}"))

    def _start(self) -> Worker:
        if self._worker is None:
            worker = self._worker = Worker(MODULE, self._folder, env=THREADS)
            worker.call(
                "start", START_SECONDS, config=self._config.model_dump(mode="json"), seed=self._attack.seed,
                target=self._attack.target, processors=list(self._processors),
            )  # fmt: skip
        return self._worker

    def _end(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()

    def close(self) -> None:
        self._closed = True
        self._end()

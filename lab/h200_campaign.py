"""Judge what the built-in expert writes in CUDA C++ for KernelBench, on all GPUs of one host, several tasks side by side.

In: a checkout of KernelBench and names of its tasks (`level1/40`); all of levels 1 and 2 by default. Out: a folder with a bundle and
the bundle's results for each task, and `campaign.jsonl`, a line for each task that came to its end: seconds, GPU, exit status. Each task
is packed by `cuda_expert.py` and judged by `warpsmith bundle run`, in a lane: one GPU, and a share of its memory and the host's. Of each
GPU two processors are kept for what is timed; all others are everybody's. Lanes on one GPU take turns at measuring (`warpsmith/judge/device/device_lock.py`). The same command goes on where it ended.
Two units by hand, the canaries, are judged first and once more at the end: what they take then says whether the machine has changed (`canaries/`).

    python lab/h200_campaign.py KERNELBENCH OUT [--seconds S] [--lanes N] [--cores N] [--task NAME …] [--in-order] [--no-canaries]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import benchmarks_on_path  # noqa: F401
import lanes
import psutil
from h200_canaries import CANARIES, FIRST, LAST
from h200_report import CONFIRMED, judged
from narrow_task import DTYPES

from warpsmith.bundles.bundle import Bundle, read_bundle
from warpsmith.errors import WarpsmithError
from warpsmith.judge.device.memory import count_kept_files, estimate_bytes, is_crowded, live_bytes
from warpsmith.processes.buffers import extent_bytes

HERE = Path(__file__).parent
GIB = float(1 << 30)
TIMED_ON = 2  # processors of each GPU
TIMED = 8  # processes that hold a task's values on the GPU
BASELINES = 5  # processes
TRUTHS = 2.0  # GiB that the reference worker keeps
CONTEXT = 0.6  # GiB of the GPU's memory that a process takes by itself
LEAST_GIB = 6.0  # of host memory for a lane: torch in eight processes
PACKERS = 4  # at a time, behind what is judged
TRIES = 2  # of a task that found too little memory on the GPU
MOST_SECONDS = 560  # for a task
SPARE_SECONDS = 15  # to end in order
SAID_EVERY = 30  # seconds: what is done, running, left
CANARY_SECONDS = 150  # before the end: time enough for the last ones
LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current"))  # of a container
PEAKS = "import pathlib, sys; from warpsmith.judge.roofline import peaks; peaks.measure_peaks(pathlib.Path(sys.argv[1]), 1, device='cuda')"
LEVELS = [f"level{level}/{number}" for level in (2, 1) for number in range(1, 101)]


@dataclass
class Lane:
    gpu: int
    timed_on: tuple[int, ...]  # processors for what is timed on this GPU


@dataclass
class Work:
    """A task: its bundle when it is packed, and GiB that judging it takes, of the host and of the GPU."""

    name: str
    bundle: Path
    results: Path
    host: float = 0.0
    device: float = 0.0
    failed: str = ""
    tries: int = 0
    rank: int = 0  # lower ones first, whatever they need
    whole: bool = False  # at its own sizes, whatever they take
    canary: str = ""  # FIRST or LAST for one

    @classmethod
    def of(cls, name: str, out: Path, rank: int = 0) -> Work:
        """With its places in a campaign's folder, or a pack's."""
        place = name.replace("/", "_")
        return cls(name, out / "bundles" / place, out / "results" / place, rank=rank)

    @classmethod
    def of_canary(cls, name: str, out: Path, when: str, began: str) -> Work:
        """`began`: which campaign's it is."""
        place = name.replace("/", "_")
        results = out / "canaries" / f"{began}-{when}-{place}"
        return cls(name, out / "bundles" / f"canary_{place}", results, rank=-1, canary=when)

    @property
    def label(self) -> str:
        return f"{self.name} (canary)" if self.canary else self.name


@dataclass
class Campaign:
    kernelbench: Path
    out: Path
    lanes: list[Lane]
    host: float  # GiB
    device: float  # GiB of each GPU
    ends: float
    candidates: int
    memory: float
    cores: int
    shared: set[int]  # processors that are kept for no GPU
    more: tuple[str, ...] = ()  # arguments of cuda_expert.py
    running: dict[int, Work] = field(default_factory=dict)  # by lane
    ended: list[str] = field(default_factory=list)
    waiting: list[Work] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def pack(self, work: Work) -> Work:
        """Write the task's bundle, unless it is there."""
        if not work.bundle.exists():
            command = [
                sys.executable, str(HERE / "cuda_expert.py"), str(self.kernelbench), str(work.bundle), "--task", work.name,
                *self._choices(work),
            ]  # fmt: skip
            env = {**os.environ, "OMP_NUM_THREADS": "2", "CUDA_VISIBLE_DEVICES": ""}
            made = subprocess.run(
                command, env=env, capture_output=True, text=True, check=False,
                preexec_fn=self._behind,
            )  # fmt: skip
            (self.out / "log" / f"{work.bundle.name}.pack").write_text(made.stdout + made.stderr)
            if made.returncode != 0 or not work.bundle.exists():
                work.failed = f"not packed: {(made.stdout + made.stderr).strip()[-300:]}"
                return work
        try:
            work.host, work.device = needs(read_bundle(work.bundle))
        except WarpsmithError as error:
            work.failed = f"not packed: {error}"
        return work

    def _choices(self, work: Work) -> list[str]:
        """Arguments of cuda_expert.py."""
        if work.canary:
            return ["--candidates", "0", "--authored"]
        memory = math.inf if work.whole else self.memory
        return ["--candidates", str(self.candidates), "--memory", str(memory), *self.more]

    def _behind(self) -> None:
        """What is judged goes before what is packed."""
        os.sched_setaffinity(0, self.shared)
        os.nice(10)

    def fits(self, work: Work) -> int | None:
        """A free lane for it, on the GPU that has most memory left; None while there is no room."""
        host = self.host - sum(w.host for w in self.running.values())
        if self.running and work.host > host:
            return None
        left = {lane.gpu: self.device for lane in self.lanes}
        for number, other in self.running.items():
            left[self.lanes[number].gpu] -= other.device
        free = [n for n in range(len(self.lanes)) if n not in self.running]
        room = [
            n
            for n in free
            if work.device <= left[self.lanes[n].gpu] or left[self.lanes[n].gpu] == self.device
        ]
        return max(room, key=lambda n: left[self.lanes[n].gpu], default=None)

    def judge(self, number: int, work: Work) -> None:
        """Run the bundle in a lane, and say how it went."""
        lane, start = self.lanes[number], time.monotonic()
        seconds = max(1, int(min(MOST_SECONDS, self.ends - start - SPARE_SECONDS)))
        command = [
            sys.executable, "-m", "warpsmith", "bundle", "run", str(work.bundle), "--out", str(work.results),
            "--limit-time", str(seconds), "--quick",
        ]  # fmt: skip
        env = {
            **os.environ, "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": str(lane.gpu),
            "OMP_NUM_THREADS": str(self.cores), "WARPSMITH_CACHE": str(self.out / "cache" / f"gpu{lane.gpu}"),
            "WARPSMITH_JUDGE_MEMORY_GB": f"{work.host * 1.02 + 0.1:.2f}", "PYTHONUNBUFFERED": "1",
            "WARPSMITH_TIMED_ON": ",".join(map(str, lane.timed_on)),
        }  # fmt: skip
        log = self.out / "log" / f"{work.results.name}.judge"
        process = subprocess.Popen(
            command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True, preexec_fn=lambda: os.sched_setaffinity(0, self.shared),
        )  # fmt: skip
        writer = threading.Thread(target=stamped, args=(process, log, start))
        writer.start()
        if not lanes.waited(process, start + seconds + 2 * SPARE_SECONDS, threading.Event()):
            os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
        writer.join()
        took, last = (
            time.monotonic() - start,
            (log.read_text(errors="replace").strip().splitlines() or [""])[-1],
        )
        row = {
            "task": work.label, "gpu": lane.gpu, "seconds": round(took, 1), "exit": code, "last": last[-200:],
            "host_gib": round(work.host, 1), "device_gib": round(work.device, 1),
        }  # fmt: skip
        with self.lock:
            del self.running[number]
            self.ended.append(work.label)
            with (self.out / "campaign.jsonl").open("a") as file:
                file.write(json.dumps(row) + "\n")
            work.tries += 1
            if "CUDA out of memory" in log.read_text(errors="replace") and work.tries < TRIES:
                work.device = max(2 * work.device, self.device)
                self.waiting.append(work)
        print(f"{work.label:12s} gpu {lane.gpu} {took:5.0f} s, exit {code}: {last[-150:]}", flush=True)

    def measure_peaks(self) -> None:
        """Of each GPU, before anything else runs there: all lanes would wait for one."""
        started = []
        for gpu in {lane.gpu for lane in self.lanes}:
            cache = self.out / "cache" / f"gpu{gpu}"
            cache.mkdir(exist_ok=True)
            env = {**os.environ, "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": str(gpu)}
            started.append(subprocess.Popen([sys.executable, "-c", PEAKS, str(cache)], env=env))
        for process in started:
            process.wait()

    def play(self, works: Sequence[Work], last: Sequence[Work] = ()) -> None:
        """Start what is packed and fits, by rank, then what needs least, until all is done or the time is up; `last`, when
        nothing else is left, or little time.
        """
        self.measure_peaks()
        last = list(last)
        said = time.monotonic()
        with ThreadPoolExecutor(PACKERS) as packers, ThreadPoolExecutor(len(self.lanes)) as judges:
            packing = [packers.submit(self.pack, w) for w in works]
            while (
                packing or self.waiting or self.running or last
            ) and time.monotonic() < self.ends - 2 * SPARE_SECONDS:
                late = time.monotonic() > self.ends - CANARY_SECONDS
                if last and (late or not (packing or self.waiting or self.running)):
                    packing += [packers.submit(self.pack, w) for w in last]
                    last = []
                for future in [f for f in packing if f.done()]:
                    packing.remove(future)
                    self._packed(future.result())
                with self.lock:
                    for work in sorted(self.waiting, key=lambda w: (w.rank, w.device)):
                        if (number := self.fits(work)) is not None:
                            self.waiting.remove(work)
                            self.running[number] = work
                            judges.submit(self.judge, number, work)
                if time.monotonic() > said + SAID_EVERY:
                    said = time.monotonic()
                    print(self.progress(len(packing)), flush=True)
                time.sleep(0.2)
            for future in packing:
                future.cancel()
        print(f"left: {' '.join(w.label for w in self.waiting) or 'nothing'}", flush=True)

    def progress(self, packing: int) -> str:
        with self.lock:
            running = " ".join(w.label for w in self.running.values())
            left = f"{len(self.waiting)} wait{f', {packing} being packed' if packing else ''}"
            return (
                f"{time.strftime('%H:%M:%S')}: {len(self.ended)} ended, running: {running or 'none'}; {left}"
            )

    def _packed(self, work: Work) -> None:
        if work.failed:
            print(f"{work.label:12s} {work.failed}", flush=True)
        else:
            with self.lock:
                self.waiting.append(work)


def stamped(process: subprocess.Popen[bytes], log: Path, start: float) -> None:
    """What a process says, each line with the seconds since its start."""
    assert process.stdout is not None
    with log.open("a") as file:
        for line in process.stdout:
            file.write(f"{time.monotonic() - start:6.1f} {line.decode(errors='replace')}")
            file.flush()


def needs(bundle: Bundle) -> tuple[float, float]:
    """GiB of the host and of the GPU that judging the bundle's task takes, roughly. A float64 oracle has its
    intermediate values twice, and every timed process has the inputs as given, as changed, and what it makes of them. Before that
    each baseline has them three times, and the one that tunes itself twice more (13 and 17 GiB were seen for inputs of 4, and no room left).
    """
    graph = next(iter(bundle.tasks.values())).graph
    inputs, live = sum(extent_bytes(i.spec) for i in graph.inputs) / GIB, live_bytes(graph) / GIB
    at_once = 1 if is_crowded(graph) else TIMED  # processes whose calls take memory at a time
    timed = (
        TIMED * (inputs * min(3, count_kept_files(graph)) + CONTEXT)
        + at_once * (inputs + live)
        + 4 * inputs
        + 7 * live
        + min(TRUTHS, 3 * (inputs + live))
    )
    tuned = BASELINES * (3 * inputs + CONTEXT) + 2 * inputs
    return max(LEAST_GIB, estimate_bytes(graph, "cuda") / GIB), max(timed, tuned)


def finished(out: Path) -> set[str]:
    """Tasks of which a candidate was confirmed: one whose time ran out goes on."""
    found = {f.name.replace("_", "/"): judged(f, out) for f in (out / "results").iterdir()}
    return {task for task, row in found.items() if row is not None and row["status"] in CONFIRMED}


def host_gib() -> float:
    """Of the host's memory what is free, or what is left of this container's share."""
    free = psutil.virtual_memory().available
    try:
        limit, used = (int(file.read_text()) for file in LIMITS)
        free = min(free, limit - used)
    except (OSError, ValueError):
        pass  # no container, or no limit ("max")
    return free / GIB


def gpus_here() -> int:
    """As nvidia-smi lists them; 0 where there is none."""
    if shutil.which("nvidia-smi") is None:
        return 0
    return len(subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout.splitlines())


def settled(rows: Path) -> set[str]:
    """Tasks that an earlier campaign came to a verdict on: a candidate confirmed, or found wrong on the last look."""
    found = [json.loads(line) for line in rows.read_text().splitlines()]
    return {str(row["task"]) for row in found if row["status"] in ("win", "no win", "wrong")}


def which_tasks(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--task", action="append", default=[], help="level1/40; repeatable; default: all 200")
    parser.add_argument(
        "--rows", type=Path, help="rows of h200_report.py: what is a win, none or wrong there is left out"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kernelbench", type=Path, help="a checkout of KernelBench")
    parser.add_argument("out", type=Path, help="a folder; what it holds is kept")
    which_tasks(parser)
    parser.add_argument("--seconds", type=float, default=3600, help="wall time")
    parser.add_argument("--gpus", type=int, default=0, help="how many; default: all")
    parser.add_argument("--lanes", type=int, default=4, help="tasks at a time on each GPU")
    parser.add_argument("--cores", type=int, default=4, help="threads of a lane's torch and builds")
    parser.add_argument("--candidates", type=int, default=5, help="of each task, at most")
    parser.add_argument(
        "--memory", type=float, default=48, help="GiB of host memory for a task, as of cuda_expert.py"
    )
    parser.add_argument(
        "--host-memory", type=float, default=0.0, help="GiB for all lanes; default: what is free now"
    )
    parser.add_argument(
        "--in-order",
        action="store_true",
        help="tasks as --task names them, not those first that need least memory",
    )
    parser.add_argument("--no-canaries", action="store_true", help="judge nothing but the tasks")
    parser.add_argument("--gpu-memory", type=float, default=134, help="GiB of each GPU")
    parser.add_argument(
        "--dtype", choices=DTYPES, help="convert the tasks to it; in a folder of OUT that is named so"
    )
    given = parser.parse_args(arguments)
    gpus = given.gpus or gpus_here()
    if given.rows is not None and not given.rows.is_file():
        parser.error(f"{given.rows} is no file: give the rows that h200_report.py wrote")
    processors = sorted(os.sched_getaffinity(0))
    kept = {gpu: tuple(processors[TIMED_ON * gpu : TIMED_ON * (gpu + 1)]) for gpu in range(gpus)}
    shared = set(processors[TIMED_ON * gpus :])
    if not gpus or len(shared) < given.cores:
        print(
            f"error: {gpus} GPUs and {len(processors)} processors: {TIMED_ON} of them are kept for each GPU",
            file=sys.stderr,
        )
        return 2
    out = given.out / (given.dtype or "")
    made = [Lane(n % gpus, kept[n % gpus]) for n in range(gpus * given.lanes)]
    for folder in ("bundles", "results", "log", "cache", "canaries"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    done = finished(out) | (settled(given.rows) if given.rows else set())
    names = [n for n in (given.task or LEVELS) if n not in done]
    works = [Work.of(n, out, i * given.in_order) for i, n in enumerate(names)]
    host = given.host_memory or host_gib() * 0.92
    campaign = Campaign(
        given.kernelbench, out, made, host, given.gpu_memory, time.monotonic() + given.seconds,
        given.candidates, given.memory, given.cores, shared, ("--dtype", given.dtype) if given.dtype else (),
    )  # fmt: skip
    began = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    canaries = () if given.no_canaries or given.dtype or not works else CANARIES
    first, last = ([Work.of_canary(n, out, when, began) for n in canaries] for when in (FIRST, LAST))
    campaign.play([*first, *works], last)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""`Peaks`: the best rates that were ever measured on this machine, each with when and under which conditions.

In: a compiler and a cache folder. Out: `Peaks`, measured by a small program (`stream.cpp`; `cuda_peaks.py` on a GPU) in its own
process and kept in the folder. The rule of claims holds for peaks, too: where threads wait for a processor, or the GPU has other
work, a rate is marked busy. A rate that was busy is measured again a few times, and by a session that begins some minutes later; the best of
each is kept.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ... import machine
from ...config import CACHE_REMEDY
from ...errors import JudgeError, ToolchainError, WarpsmithError
from ...processes.worker import Worker
from ...records import Record, UsedPeaks, content_hash
from ..timing.interleaved_rounds import BUSY_SHARE

SOURCE = Path(__file__).with_name("stream.cpp")
GPU_MODULE, GPU_SOURCE = "warpsmith.judge.roofline.cuda_peaks", Path(__file__).with_name("cuda_peaks.py")
FLAGS = ("-O3", "-march=native", "-std=c++17", "-fopenmp", "-ffp-contract=fast", "-ffast-math")
SIZES_KIB = (128, 512, 2 << 10, 8 << 10, 24 << 10, 64 << 10, 256 << 10)
NARROW = {"bfloat16", "float16", "int8", "uint8"}  # matrix units run these far faster than FP32 vectors
NARROW_GAIN = 32.0
# Of halves, that make one product exact to fp32: high by high and the two of high by low (Ootomo and Yokota, arXiv:2203.03341).
SPLIT_PRODUCTS = 3
ATTEMPTS = 3  # measurements in a row, while the machine is busy
LATELY_S = 600.0  # for so long after that a session takes what was measured, busy or not
KEY_DIGITS = 8
TABLES = {"read": "read", "copy": "copy_", "stream": "stream"}  # kind of access → field
ARITHMETIC = ("flops", "tf32", "narrow")


class Conditions(Record):
    """The conditions under which a rate was measured."""

    measured_at: str  # ISO 8601 UTC
    waited: float = 0.0  # share of the time that the thread that waited longest was in run queues; of a CPU
    busy: bool = False  # by the rule of claims: that share was too high, or the GPU had other work


class Peaks(Record):
    """Best rates seen on this machine with this many threads. Bandwidths: bytes read plus written per second,
    by bytes touched.
    """

    threads: int
    read: dict[int, float]
    copy_: dict[int, float]
    stream: dict[int, float]
    flops: float  # FP32, a multiply-add counts two
    last_cache: int  # bytes
    tf32: float = 0.0  # FP32 matrices at reduced precision, which torch allows convolutions; 0: none
    narrow: float = 0.0  # matrix units on 16 bits and less; 0: not measured
    conditions: dict[str, Conditions] = {}  # name of a rate → those of the measurement that it is from
    quiet: tuple[str, ...] = ()  # names of the rates that were measured at least once on a quiet machine

    @cached_property
    def rates(self) -> dict[str, float]:
        """All rates by name, as "read/131072" and "flops"."""
        bandwidths = {
            f"{kind}/{size}": rate
            for kind, field in TABLES.items()
            for size, rate in getattr(self, field).items()
        }
        return bandwidths | {name: getattr(self, name) for name in ARITHMETIC if getattr(self, name)}

    @property
    def busy(self) -> bool:
        """Tell whether the machine was busy, or nobody noted that it was not, each time that some rate was measured."""
        return not set(self.rates) <= set(self.quiet)

    @property
    def measured_at(self) -> str:
        """When the newest of the rates was measured, ISO 8601 UTC; empty where it was not noted."""
        return max((c.measured_at for c in self.conditions.values()), default="")

    @property
    def used(self) -> UsedPeaks:
        """Name these peaks for the limits that use them."""
        key = content_hash([self.threads, self.last_cache, self.rates])[:KEY_DIGITS]
        return UsedPeaks(key=key, measured_at=self.measured_at, busy=self.busy)

    def bandwidth(self, size: int) -> float:
        """Highest rate for a working set of at least `size` bytes: rates fall with size, so no set that large
        moves faster.
        """
        rates = [
            r
            for table in (self.read, self.copy_, self.stream)
            for s, r in table.items()
            if s >= min(size, max(table))
        ]
        small = [s for s in self.read if s <= size]
        at = max(small) if small else min(self.read)
        return max([*rates, self.read[at], self.copy_[at], self.stream[at]])

    @property
    def memory(self) -> float:
        """Rate of main memory."""
        return self.bandwidth(max(self.read))

    @property
    def cold(self) -> dict[str, float]:
        """Rates of main memory by kind of access."""
        return {kind: getattr(self, field)[max(getattr(self, field))] for kind, field in TABLES.items()}

    @property
    def cached(self) -> dict[int, float]:
        """Best rate of each working set that fits the caches, by its bytes."""
        sizes = sorted(s for s in self.read if s <= self.last_cache)
        return {size: max(getattr(self, field)[size] for field in TABLES.values()) for size in sizes}

    def merge(self, other: Peaks) -> Peaks:
        """Take the better of two measurements, rate by rate, each with its conditions."""
        best = {
            name: self if self.rates.get(name, 0.0) >= other.rates.get(name, 0.0) else other
            for name in self.rates | other.rates
        }
        conditions = {n: p.conditions[n] for n, p in best.items() if n in p.conditions}
        return self.model_copy(
            update={
                **_make_fields({name: peaks.rates[name] for name, peaks in best.items()}),
                "conditions": conditions, "quiet": tuple(sorted({*self.quiet, *other.quiet})),
            }
        )  # fmt: skip

    def arithmetic(self, dtypes: set[str], convolves: bool) -> float:
        """Operations per second that a graph with these dtypes may use."""
        if dtypes & NARROW:
            return self.narrow or self.flops * NARROW_GAIN
        return max(self.flops, self.narrow / SPLIT_PRODUCTS, self.tf32 if convolves else 0.0)


def _make_fields(rates: Mapping[str, float]) -> dict[str, Any]:
    """Make the fields of `Peaks` that hold these rates."""
    tables: dict[str, Any] = {field: {} for field in TABLES.values()}
    for name, rate in rates.items():
        kind, _, size = name.partition("/")
        if size:
            tables[TABLES[kind]][int(size)] = rate
    return tables | {name: rates[name] for name in ARITHMETIC if name in rates}


def measure_peaks(
    cache_dir: Path,
    threads: int,
    *,
    compiler: str | None = None,
    refresh: bool = False,
    device: str = "cpu",
    progress: Callable[[str], None] = lambda text: None,
) -> Peaks:
    """Peak rates of the processor or, for device "cuda", of the GPU: from the cache when `find_usable_peaks` finds them there,
    else measured now. `refresh` measures again in any case. The better of each rate is kept.

    Takes about two seconds the first time, on a GPU ten, and on a busy machine three times that. Raises ToolchainError without
    a working compiler, JudgeError without a working GPU.
    """
    peaks = None if refresh else find_usable_peaks(cache_dir, threads, device=device)
    if peaks is not None:
        return peaks
    for attempt in range(1, ATTEMPTS + 1):
        if attempt > 1:
            progress(f"the machine is busy: measuring its peak rates again ({attempt} of {ATTEMPTS})")
        fresh = _measure_gpu() if device == "cuda" else _measure(machine.find_compiler(compiler), threads)
        before = load_peaks(cache_dir, threads, device=device)  # another session may have measured meanwhile
        peaks = fresh if before is None else before.merge(fresh)
        _write(_peaks_file(cache_dir, threads, device), peaks)
        if not (fresh.busy if refresh else peaks.busy):
            break
    assert peaks is not None
    return peaks


def find_usable_peaks(cache_dir: Path, threads: int, *, device: str = "cpu") -> Peaks | None:
    """Load the peaks that a session uses as they are: those that were measured on a quiet machine, or lately."""
    peaks = load_peaks(cache_dir, threads, device=device)
    if peaks is None or not peaks.busy:
        return peaks
    written = _peaks_file(cache_dir, threads, device).stat().st_mtime
    return peaks if time.time() - written < LATELY_S else None


def load_peaks(cache_dir: Path, threads: int, *, device: str = "cpu") -> Peaks | None:
    """Load what `measure_peaks` measured here before."""
    return _read(_peaks_file(cache_dir, threads, device))


def _peaks_file(cache_dir: Path, threads: int, device: str) -> Path:
    if device == "cuda":
        identity = [machine.gpu(), machine.describe().torch, GPU_SOURCE.read_text()]
        key = content_hash([str(part) for part in identity])
    else:
        program = SOURCE.read_text()
        key = content_hash([machine.make_processor_key(), machine.affinity(), threads, program, FLAGS])
    return cache_dir / f"peaks-{key}.json"


def _measure(compiler: str, threads: int) -> Peaks:
    sizes = [k << 10 for k in SIZES_KIB]
    with tempfile.TemporaryDirectory(prefix="warpsmith-peaks-") as folder:
        binary = Path(folder) / "stream"
        try:
            subprocess.run(
                [compiler, *FLAGS, str(SOURCE), "-o", str(binary)],
                check=True,
                capture_output=True,
                text=True,
                timeout=60,
            )
            command = [str(binary), str(threads), *(str(s) for s in sizes)]
            waiting = {
                **os.environ,
                "OMP_WAIT_POLICY": "passive",
            }  # spinning threads starve each other on a busy machine
            done = subprocess.run(
                command, check=True, capture_output=True, timeout=60, text=True, env=waiting
            )
            measured = json.loads(done.stdout)
        except subprocess.CalledProcessError as error:
            lines = error.stderr.strip().splitlines() or [f"it ends with {error.returncode}"]
            reason = next((line for line in lines if "error: " in line), lines[0])
            raise ToolchainError(
                f"{error.cmd[0]} fails: {reason}; `warpsmith doctor` checks the compiler"
            ) from error
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            raise ToolchainError(f"cannot measure this machine's peak rates: {error}") from error
    pairs = {f"{kind}/{size}": pair for kind in TABLES for size, pair in measured[kind].items()}
    pairs["flops"] = measured["flops"]
    caches = machine.cache_bytes()
    fields = {
        "threads": threads, "last_cache": caches[max(caches)], **_make_fields({n: float(r) for n, (r, _) in pairs.items()})
    }  # fmt: skip
    waited = {name: float(share) for name, (_, share) in pairs.items()}
    return _note_conditions(fields, waited, {n for n, share in waited.items() if share > BUSY_SHARE})


def _measure_gpu() -> Peaks:
    """In a process of its own, since this one is without torch."""
    with (
        tempfile.TemporaryDirectory(prefix="warpsmith-peaks-") as folder,
        Worker(GPU_MODULE, Path(folder)) as worker,
    ):
        try:
            answer = worker.call("measure", 120.0)
            return _note_conditions(answer["rates"], {}, set(answer["busy"]))
        except (WarpsmithError, ValidationError) as error:
            raise JudgeError(f"cannot measure the GPU's peak rates: {error}") from error


def _note_conditions(fields: Mapping[str, Any], waited: Mapping[str, float], busy: set[str]) -> Peaks:
    """Make the peaks of one measurement, with the conditions of each rate."""
    peaks = Peaks.model_validate_json(json.dumps(fields))
    measured_at = datetime.now(UTC).isoformat(timespec="seconds")
    conditions = {
        name: Conditions(measured_at=measured_at, waited=waited.get(name, 0.0), busy=name in busy) for name in peaks.rates
    }  # fmt: skip
    quiet = tuple(sorted(set(peaks.rates) - busy))
    return peaks.model_copy(update={"conditions": conditions, "quiet": quiet})


def _read(file: Path) -> Peaks | None:
    try:
        return Peaks.model_validate_json(file.read_text())
    except (OSError, ValidationError):
        return None


def _write(file: Path, peaks: Peaks) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        aside = file.with_suffix(f".{os.getpid()}")
        aside.write_text(peaks.model_dump_json())
        aside.replace(file)
    except OSError as error:
        raise JudgeError(
            f"cannot keep the measured peak rates in {file.parent}: {error.strerror}; {CACHE_REMEDY}"
        ) from error

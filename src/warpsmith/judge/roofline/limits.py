"""The speed of light: measured peak rates of this machine, and the least time a task can take on it.

In: a compiler, a cache folder and a graph. Out: `Peaks`, measured once per environment by a small program
(`stream.cpp`; `cuda_peaks.py` on a GPU) in its own process, and `Limit`s. A floor that an honest kernel can beat would reject honest
work, so every choice errs towards less time: only bytes that must move count (a slice of an input, not the
whole), outputs may stay in the cache, rates are the best ever seen here. Arithmetic bounds what is reported
as the limit, not what is rejected: a rewrite may need fewer operations than the reference.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ... import machine
from ...config import CACHE_REMEDY
from ...errors import JudgeError, ToolchainError, WarpsmithError
from ...processes.worker import Worker
from ...records import Graph, Limit, Node, Record, Region, TensorSpec, content_hash

SOURCE = Path(__file__).with_name("stream.cpp")
GPU_MODULE, GPU_SOURCE = "warpsmith.judge.roofline.cuda_peaks", Path(__file__).with_name("cuda_peaks.py")
FLAGS = ("-O3", "-march=native", "-std=c++17", "-fopenmp", "-ffp-contract=fast", "-ffast-math")
SIZES_KIB = (128, 512, 2 << 10, 8 << 10, 24 << 10, 64 << 10, 256 << 10)
NARROW = {"bfloat16", "float16", "int8", "uint8"}  # matrix units run these far faster than FP32 vectors
NARROW_GAIN = 32.0
# Of halves, that make one product exact to fp32: high by high and the two of high by low (Ootomo and Yokota, arXiv:2203.03341).
SPLIT_PRODUCTS = 3
TOLERANCE = 0.10  # measured rates are this uncertain; a result is refused only beyond it

VIEWS = {
    "view", "_unsafe_view", "reshape", "permute", "transpose", "t", "unsqueeze", "squeeze", "expand", "alias",
    "detach",
}  # fmt: skip
PARTIAL = {
    "slice", "select", "index_select", "embedding", "gather", "index", "narrow", "diagonal", "split",
    "split_with_sizes", "unbind", "as_strided", "unfold", "tril", "triu", "constant_pad_nd",
    "upsample_nearest2d", "grid_sampler_2d",
}  # fmt: skip
SPARSE_WINDOWS = ("conv", "pool")  # a stride beyond the window skips elements


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

    def merge(self, other: Peaks) -> Peaks:
        """Take the better of two measurements, rate by rate."""
        tables = {
            name: {
                size: max(rate, getattr(other, name).get(size, 0.0))
                for size, rate in getattr(self, name).items()
            }
            for name in ("read", "copy_", "stream")
        }
        rates = {name: max(getattr(self, name), getattr(other, name)) for name in ("flops", "tf32", "narrow")}
        return self.model_copy(update={**tables, **rates})

    def arithmetic(self, dtypes: set[str], convolves: bool) -> float:
        """Operations per second that a graph with these dtypes may use."""
        if dtypes & NARROW:
            return self.narrow or self.flops * NARROW_GAIN
        return max(self.flops, self.narrow / SPLIT_PRODUCTS, self.tf32 if convolves else 0.0)


def measure_peaks(
    cache_dir: Path,
    threads: int,
    *,
    compiler: str | None = None,
    refresh: bool = False,
    device: str = "cpu",
) -> Peaks:
    """Peak rates of the processor or, for device "cuda", of the GPU, from the cache when measured before.
    `refresh` measures again and keeps the better of each rate.

    Takes about two seconds the first time, on a GPU ten. Raises ToolchainError without a working compiler,
    JudgeError without a working GPU.
    """
    cached = load_peaks(cache_dir, threads, device=device)
    if cached is not None and not refresh:
        return cached
    peaks = _measure_gpu() if device == "cuda" else _measure(machine.find_compiler(compiler), threads)
    peaks = peaks if cached is None else cached.merge(peaks)
    _write(_peaks_file(cache_dir, threads, device), peaks)
    return peaks


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
            rates = json.loads(done.stdout)
        except subprocess.CalledProcessError as error:
            lines = error.stderr.strip().splitlines() or [f"it ends with {error.returncode}"]
            reason = next((line for line in lines if "error: " in line), lines[0])
            raise ToolchainError(
                f"{error.cmd[0]} fails: {reason}; `warpsmith doctor` checks the compiler"
            ) from error
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            raise ToolchainError(f"cannot measure this machine's peak rates: {error}") from error
    caches = machine.cache_bytes()
    tables = {name: {int(s): float(r) for s, r in rates[name].items()} for name in ("read", "copy", "stream")}
    return Peaks(
        threads=threads, read=tables["read"], copy_=tables["copy"], stream=tables["stream"],
        flops=rates["flops"], last_cache=caches[max(caches)],
    )  # fmt: skip


def _measure_gpu() -> Peaks:
    """In a process of its own, since this one is without torch."""
    with (
        tempfile.TemporaryDirectory(prefix="warpsmith-peaks-") as folder,
        Worker(GPU_MODULE, Path(folder)) as worker,
    ):
        try:
            return Peaks.model_validate_json(json.dumps(worker.call("measure", 120.0)))
        except (WarpsmithError, ValidationError) as error:
            raise JudgeError(f"cannot measure the GPU's peak rates: {error}") from error


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


def limit(graph: Graph, peaks: Peaks, cold: bool = True) -> Limit:
    """Speed-of-light floor of the whole graph. `cold`: the inputs start in main memory."""
    read = sum(_demand(graph, i.name, i.spec) for i in graph.inputs)
    written = sum(graph.specs[name].nbytes for name in graph.returned)
    rate = peaks.arithmetic({s.dtype for s in graph.specs.values()}, _convolves(graph.nodes))
    return _limit(read, written, graph.flops, peaks, cold, rate)


def region_limit(graph: Graph, region: Region, peaks: Peaks, cold: bool = False) -> Limit:
    """Floor of a region on its own: its inputs read once, its outputs written once."""
    inside = set(region.nodes)
    read = sum(_demand(graph, name, graph.specs[name], inside) for name in region.inputs)
    written = sum(graph.specs[name].nbytes for name in region.outputs)
    flops = sum(graph.by_name[n].flops for n in region.nodes)
    dtypes = {graph.specs[name].dtype for name in (*region.inputs, *region.outputs)}
    rate = peaks.arithmetic(dtypes, _convolves([graph.by_name[n] for n in region.nodes]))
    return _limit(read, written, flops, peaks, cold, rate)


def hard_floor(limit: Limit) -> float:
    """Seconds below which a time is refused: what must move, at the measured rate, less its uncertainty."""
    return limit.least_bytes / limit.bytes_per_second * (1 - TOLERANCE)


def _convolves(nodes: Sequence[Node]) -> bool:
    return any("conv" in node.op for node in nodes)


def _limit(read: int, written: int, flops: int, peaks: Peaks, cold: bool, rate: float) -> Limit:
    total = read + written
    seconds = total / peaks.bandwidth(total)
    if cold:  # inputs come from memory; outputs need only reach the cache
        seconds = max(seconds, (read + max(0, written - peaks.last_cache)) / peaks.memory)
    arithmetic = flops / rate
    return Limit(
        seconds=max(seconds, arithmetic), least_bytes=total, flops=flops, flops_per_second=rate,
        bytes_per_second=total / seconds if seconds > 0 else peaks.memory,
        bound="compute" if arithmetic > seconds else "memory",
    )  # fmt: skip


def _demand(graph: Graph, name: str, spec: TensorSpec, inside: set[str] | None = None) -> int:
    """Bytes of a value that its users must read: all of it, unless every user takes a part."""
    if name in graph.returned and inside is None:
        return spec.nbytes
    users = [n for n in graph.users[name] if inside is None or n.name in inside]
    return min(spec.nbytes, sum(_part(graph, node, name, spec, inside) for node in users))


def _part(graph: Graph, node: Node, name: str, spec: TensorSpec, inside: set[str] | None) -> int:
    kind = node.op.split(".")[1]
    outputs = [v for v in node.outputs if v is not None]
    if kind in VIEWS:
        return sum(_demand(graph, v.name, v.spec, inside) for v in outputs)
    if kind in PARTIAL:
        if kind in ("tril", "triu"):
            return spec.nbytes // 2
        return sum(v.spec.nbytes for v in outputs)
    if any(word in kind for word in SPARSE_WINDOWS) and node.args and node.args[0] == {"v": name}:
        return int(spec.nbytes * _window_share(graph, node, kind))
    return spec.nbytes


def _window_share(graph: Graph, node: Node, kind: str) -> float:
    """Share of a convolution's or pool's input that its windows touch."""
    if "conv" in kind:
        window = list(graph.specs[node.args[1]["v"]].shape[2:])
        stride: Any = node.args[3] if len(node.args) > 3 else 1
    else:
        window = node.args[1] if len(node.args) > 1 and isinstance(node.args[1], list) else [1]
        stride = node.args[2] if len(node.args) > 2 and node.args[2] else window
    if not all(isinstance(s, int) for s in (stride if isinstance(stride, list) else [stride])):
        return 1.0
    strides = stride if isinstance(stride, list) and len(stride) == len(window) else [stride] * len(window)
    share = 1.0
    for size, step in zip(window, strides, strict=True):
        step = step[0] if isinstance(step, list) else step
        share *= min(1.0, size / step)
    return share

"""Stores tensor values in files that processes share, by preference in memory (/dev/shm).

A *values file* holds tensors one after another, each at a 64-byte boundary with the strides of its spec, raw bytes only. Who knows
the specs can read it: numpy here, torch in `runtime/tensors.py`. A `Scratch` is the private folder that holds them; folders of dead
processes are swept when a new one is made.
"""

from __future__ import annotations

import itertools
import mmap
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import psutil

from ..errors import JudgeError
from ..records import ITEM_BYTES, TensorSpec

ALIGN_BYTES = 64
NUMPY_DTYPE = {
    "float64": np.float64, "float32": np.float32, "float16": np.float16, "bfloat16": np.uint16, "int64": np.int64,
    "int32": np.int32, "int16": np.int16, "int8": np.int8, "uint8": np.uint8, "bool": np.bool_, "complex64": np.complex64,
    "complex128": np.complex128, "float8_e4m3fn": np.uint8, "float8_e5m2": np.uint8,
}  # fmt: skip


def extent_bytes(spec: TensorSpec) -> int:
    """Count the bytes from a tensor's first element to the end of its last."""
    if spec.numel == 0:
        return 0
    last = sum((n - 1) * s for n, s in zip(spec.shape, spec.stride, strict=True))
    return (last + 1) * ITEM_BYTES[spec.dtype]


def layout(specs: Sequence[TensorSpec]) -> tuple[list[int], int]:
    """Return the byte offset of each tensor in a values file, and the file's size (at least one alignment unit)."""
    offsets, end = [], 0
    for spec in specs:
        offsets.append(end)
        end += -(-extent_bytes(spec) // ALIGN_BYTES) * ALIGN_BYTES
    return offsets, max(end, ALIGN_BYTES)


class ValuesFile:
    """A mapped values file. `raw(i)` is the bytes of tensor i, `array(i)` a strided typed view (bfloat16 as uint16 bits)."""

    def __init__(self, path: Path, specs: Sequence[TensorSpec], create: bool = False) -> None:
        self.path, self.specs = path, tuple(specs)
        self.offsets, self.size = layout(self.specs)
        flags = os.O_RDWR | (os.O_CREAT | os.O_EXCL if create else 0)
        fd = os.open(path, flags, 0o600)
        try:
            if create:
                _reserve(fd, self.size, path)
            elif os.fstat(fd).st_size < self.size:
                raise JudgeError(f"{path.name} is shorter than its tensors")
            self.map = mmap.mmap(fd, self.size)
        finally:
            os.close(fd)

    def raw(self, index: int) -> npt.NDArray[np.uint8]:
        size = extent_bytes(self.specs[index])
        return np.frombuffer(self.map, np.uint8, size, self.offsets[index])

    def array(self, index: int) -> np.ndarray:
        spec = self.specs[index]
        dtype = np.dtype(NUMPY_DTYPE[spec.dtype])
        if spec.numel == 0:
            return np.empty(spec.shape, dtype)
        flat = self.raw(index).view(dtype)
        return np.lib.stride_tricks.as_strided(flat, spec.shape, [s * dtype.itemsize for s in spec.stride])

    def arrays(self) -> list[np.ndarray]:
        return [self.array(i) for i in range(len(self.specs))]

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)


def _reserve(fd: int, size: int, path: Path) -> None:
    """Reserve the space now: writing to a map on a full disk would be a SIGBUS later."""
    try:
        os.posix_fallocate(fd, 0, size)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise JudgeError(
            f"no room for {size / 2**20:.0f} MiB of buffers in {path.parent}: {error.strerror}"
        ) from error


class Scratch:
    """A private folder for shared buffers and worker files, gone when closed. Its name carries the owner's pid."""

    PREFIX = "warpsmith-"

    def __init__(self, base: Path | None = None) -> None:
        base = base or (Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else Path(tempfile.gettempdir()))
        self._sweep(base)
        try:
            self.path = Path(tempfile.mkdtemp(prefix=f"{self.PREFIX}{os.getpid()}-", dir=base))
        except OSError as error:
            raise JudgeError(f"cannot make a folder for buffers in {base}: {error.strerror}") from error
        self._numbers = itertools.count(1)

    def new(self, stem: str) -> Path:
        """Return a fresh path in the folder, for any thread; nothing is created."""
        return self.path / f"{stem}-{next(self._numbers)}"

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def __enter__(self) -> Scratch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @classmethod
    def _sweep(cls, base: Path) -> None:
        for folder in base.glob(f"{cls.PREFIX}*-*"):
            pid = folder.name.removeprefix(cls.PREFIX).split("-")[0]
            if pid.isdigit() and not psutil.pid_exists(int(pid)):
                shutil.rmtree(folder, ignore_errors=True)

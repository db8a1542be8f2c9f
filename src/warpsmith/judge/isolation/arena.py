"""The buffers of one candidate runner: one shared file, a slot for each buffer, guard bands around it,
poison in it.

In: the sizes of inputs, outputs and workspace. Out: offsets for the runner, raw views for the supervisor,
and what was overwritten that should not have been. Buffers move within their slots from run to run, so that
nothing can be remembered by address. The file has no name: it is gone with its last user, whoever is
killed."""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...errors import JudgeError
from ...processes import bulk
from ...processes.buffers import ALIGN_BYTES, Scratch
from ...processes.bulk import Bytes

# Sixteen bits, repeated: a NaN in every float format, and different in each byte for the integers.
POISON = (0xFFFC, 0x7FFD)
# Bands around inputs and the workspace differ from those around outputs: copying one onto the other shows.
INPUT_BAND, WORKSPACE_BAND = 0xFFF9, 0x7FFA
MIN_GUARD_BYTES, MAX_GUARD_BYTES, GUARDS_PER_BUFFER = (
    64 << 10,
    1 << 20,
    16,
)  # a guard is a 16th of its buffer, within these
SLIDE_BYTES = 8 << 10  # over which a buffer moves
PAGE = 4096


@dataclass(frozen=True)
class Slot:
    """The place of one buffer: bytes [start, start + size) of the arena, the buffer within, `band` around
    it."""

    name: str
    start: int
    size: int
    extent: int
    guard: int
    band: int | None  # sixteen bits; None: the poison of the run

    def offset(self, slide: int) -> int:
        return self.start + self.guard + slide


class Arena:
    """Buffers by index: inputs, then outputs, then (once `map` was called) the workspace.

    `head` bytes at the start are left to the runner. Raises JudgeError when there is no room.
    """

    def __init__(
        self, scratch: Scratch, inputs: Sequence[int], outputs: Sequence[int], head: int, seed: int
    ) -> None:
        self.inputs, self.outputs = len(inputs), len(outputs)
        self._random = np.random.default_rng(seed)
        self.memory: mmap.mmap | None = None
        self._slots: list[Slot] = []
        self.size = _pages(head)
        for i, extent in enumerate(inputs):
            self._add(f"in{i}", extent, INPUT_BAND)
        for i, extent in enumerate(outputs):
            self._add(f"out{i}", extent, None)
        self._slides = [0] * len(self._slots)
        path = scratch.new("arena")
        try:
            self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            path.unlink()
        except OSError as error:
            raise JudgeError(f"cannot make buffers in {path.parent}: {error.strerror}") from error

    def map(self, workspace: int) -> None:
        """Add the workspace, take the room, and map it all."""
        self._add("workspace", workspace, WORKSPACE_BAND)
        self._slides.append(0)
        try:
            os.posix_fallocate(self.fd, 0, self.size)
        except OSError as error:
            size = f"{self.size / 2**20:.0f} MiB"
            raise JudgeError(f"no room for {size} of buffers: {error.strerror}") from error
        self.memory = mmap.mmap(self.fd, self.size)

    def place(self, inputs: Sequence[Bytes], word: int) -> None:
        """Move every buffer, fill bands and buffers with their patterns, write the inputs."""
        if [a.size for a in inputs] != [s.extent for s in self._slots[: self.inputs]]:
            raise ValueError("the bytes of the inputs do not fit their specs")
        self._slides = [
            ALIGN_BYTES * int(v)
            for v in self._random.integers(0, SLIDE_BYTES // ALIGN_BYTES, len(self._slots))
        ]
        for index, slot in enumerate(self._slots):
            words = np.frombuffer(self.mapped, np.uint16, slot.size // 2, slot.start)
            pattern = word if slot.band is None else slot.band
            if index < self.inputs:
                begin = slot.offset(self._slides[index]) - slot.start
                words[: begin // 2] = words[(begin + slot.extent) // 2 :] = pattern
                bulk.copy(self.view(index), inputs[index])
            else:
                bulk.fill(words, pattern)

    @property
    def mapped(self) -> mmap.mmap:
        if self.memory is None:
            raise ValueError("the arena is not mapped")
        return self.memory

    def offsets(self) -> list[int]:
        return [slot.offset(slide) for slot, slide in zip(self._slots, self._slides, strict=True)]

    def view(self, index: int) -> Bytes:
        slot = self._slots[index]
        return np.frombuffer(self.mapped, np.uint8, slot.extent, slot.offset(self._slides[index]))

    def find_changed_input(self, inputs: Sequence[Bytes]) -> str:
        """Return the name of the first input that no longer holds these bytes, else empty."""
        differ = (f"in{i}" for i, a in enumerate(inputs) if not bulk.is_same(self.view(i), a))
        return next(differ, "")

    def find_broken_guard(self, word: int) -> str:
        """Say whose guard band was written to, and how far from the buffer; empty when none was."""
        reports = (
            self._guard(slot, slide, word) for slot, slide in zip(self._slots, self._slides, strict=True)
        )
        return next((text for text in reports if text), "")

    def close(self) -> None:
        """Give the memory back. Safe to call twice; a view that someone still holds keeps it until then."""
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1
        if self.memory is not None:
            with contextlib.suppress(BufferError):
                self.memory.close()

    def _add(self, name: str, extent: int, band: int | None) -> None:
        guard = _pages(min(max(extent // GUARDS_PER_BUFFER, MIN_GUARD_BYTES), MAX_GUARD_BYTES))
        size = _pages(extent + 2 * guard + SLIDE_BYTES)
        self._slots.append(Slot(name, self.size, size, extent, guard, band))
        self.size += size

    def _guard(self, slot: Slot, slide: int, word: int) -> str:
        begin = slot.offset(slide) - slot.start
        end = begin + slot.extent
        raw = np.frombuffer(self.mapped, np.uint8, slot.size, slot.start)
        pattern = np.frombuffer(struct.pack("=H", word if slot.band is None else slot.band), np.uint8)
        before = np.flatnonzero(raw[:begin].reshape(-1, 2) != pattern)
        if before.size:
            return f"{slot.name}: {begin - int(before[-1])} bytes before its start"
        odd = slot.extent % 2  # a band that starts at an odd byte starts within the pattern
        if odd and raw[end] != pattern[1]:
            return f"{slot.name}: 0 bytes past its end"
        after = np.flatnonzero(raw[end + odd :].reshape(-1, 2) != pattern)
        return f"{slot.name}: {int(after[0]) + odd} bytes past its end" if after.size else ""


def _pages(size: int) -> int:
    return PAGE * -(-size // PAGE)

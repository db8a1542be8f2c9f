"""Switch TF32 off and back: torch computes float32 in it on a GPU, by default in cuDNN's convolutions and recurrent layers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

BACKENDS = (torch.backends.cudnn, torch.backends.cuda.matmul)


def read_tf32() -> tuple[bool, ...]:
    """Return whether each backend is allowed it now."""
    return tuple(backend.allow_tf32 for backend in BACKENDS)  # type: ignore[attr-defined]


def set_tf32(allowed: Sequence[bool]) -> None:
    for backend, flag in zip(BACKENDS, allowed, strict=True):
        backend.allow_tf32 = flag  # type: ignore[attr-defined]


@contextmanager
def allowing_tf32(allowed: bool) -> Iterator[None]:
    """TF32 where torch has it now, or nowhere."""
    before = read_tf32()
    set_tf32([allowed and flag for flag in before])
    try:
        yield
    finally:
        set_tf32(before)

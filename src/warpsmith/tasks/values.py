"""Torch's side of values files: tensors that share a file's memory, and tensors written to one.

The layout is that of `processes.buffers`: one tensor after another at 64-byte boundaries, with the strides
of its spec, raw bytes.
"""

from __future__ import annotations

import base64
import mmap
import os
import secrets
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch

from ..errors import JudgeError, TaskError
from ..processes.buffers import ValuesFile, extent_bytes, layout
from ..records import ITEM_BYTES, GraphInput, TensorSpec

LARGE_FILE_BYTES = 1 << 26  # bytes of a file


def torch_dtype(name: str) -> torch.dtype:
    """The dtype by its name without "torch."."""
    dtype = getattr(torch, name, None)
    if name not in ITEM_BYTES or not isinstance(dtype, torch.dtype):
        raise TaskError(f"{name} is not a supported dtype")
    return dtype


def open_tensors(path: Path, specs: Sequence[TensorSpec], *, writable: bool = True) -> list[torch.Tensor]:
    """Tensors over the file's own memory: what one process writes the other sees. Not writable: a private
    copy on write.

    Raises JudgeError when the file is shorter than its tensors.
    """
    offsets, size = layout(specs)
    fd = os.open(path, os.O_RDWR if writable else os.O_RDONLY)
    try:
        if os.fstat(fd).st_size < size:
            raise JudgeError(f"{path.name} is shorter than its tensors")
        memory = mmap.mmap(
            fd, size, mmap.MAP_SHARED if writable else mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE
        )
    finally:
        os.close(fd)
    return [_tensor(memory, offset, spec) for offset, spec in zip(offsets, specs, strict=True)]


def copied_to(tensor: torch.Tensor, device: str | torch.device, copy: bool = False) -> torch.Tensor:
    """On the device with the strides that it has here, expanded dimensions included. `copy`: also where it is there already."""
    if tensor.numel() == 0:
        return tensor.to(device, copy=copy)
    last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    flat = tensor.as_strided((last + 1,), (1,)).to(device, copy=copy)
    return flat.as_strided(tensor.shape, tensor.stride())


def _tensor(memory: mmap.mmap, offset: int, spec: TensorSpec) -> torch.Tensor:
    dtype = torch_dtype(spec.dtype)
    if spec.numel == 0:
        return torch.empty_strided(spec.shape, spec.stride, dtype=dtype)
    count = extent_bytes(spec) // ITEM_BYTES[spec.dtype]
    flat = torch.frombuffer(memory, dtype=dtype, count=count, offset=offset)
    return flat.as_strided(spec.shape, spec.stride)


def write_tensors(path: Path, specs: Sequence[TensorSpec], tensors: Iterable[torch.Tensor]) -> None:
    """Write a values file; each tensor is asked for when it is written.

    The file is written aside and takes its name when it is whole. So a request may be repeated, two writers do not meet, and
    whoever has mapped an earlier file of this name keeps that one.

    Raises TaskError when a tensor's shape or dtype is not its spec's, JudgeError when the disk is full.
    """
    file = ValuesFile(path.with_name(f"{path.name}.{secrets.token_hex(4)}"), specs, create=True)
    try:
        _touch(file)
        with torch.no_grad():
            for offset, spec, tensor in zip(file.offsets, specs, tensors, strict=True):
                check_tensor(spec, tensor)
                if spec.numel:
                    _unexpand(_tensor(file.map, offset, spec)).copy_(_unexpand(tensor, spec))
        file.path.replace(path)
    except BaseException:
        file.remove()  # it may be large, and whoever tries again makes another
        raise


def _touch(file: ValuesFile) -> None:
    """Every page of a large file, by all of torch's threads: the copies that follow are each made by one, which would wait for them."""
    if file.size > LARGE_FILE_BYTES:
        torch.frombuffer(file.map, dtype=torch.uint8)[:: mmap.PAGESIZE].fill_(0)


def check_tensor(spec: TensorSpec, tensor: torch.Tensor) -> None:
    """Raises TaskError when a tensor's shape or dtype is not its spec's."""
    if tuple(tensor.shape) != spec.shape or tensor.dtype != torch_dtype(spec.dtype):
        raise TaskError(f"a tensor is {tensor.dtype}{list(tensor.shape)} not {spec.dtype}{list(spec.shape)}")


def _unexpand(tensor: torch.Tensor, spec: TensorSpec | None = None) -> torch.Tensor:
    """Without repeats of dimensions of stride 0.

    Each element once, as copying into an expanded tensor is refused.
    """
    strides = spec.stride if spec is not None else tensor.stride()
    for axis, stride in enumerate(strides):
        if stride == 0 and tensor.shape[axis] > 1:
            tensor = tensor.narrow(axis, 0, 1)
    return tensor


def literal_tensor(item: GraphInput) -> torch.Tensor:
    """The value of a constant that is a literal in the module's code (`item.data`)."""
    flat = torch.frombuffer(bytearray(base64.b64decode(item.data)), dtype=torch_dtype(item.spec.dtype))
    return flat[: item.spec.numel].reshape(item.spec.shape).clone()


__all__ = ["literal_tensor", "open_tensors", "torch_dtype", "write_tensors"]

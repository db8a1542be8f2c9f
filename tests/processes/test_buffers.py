"""Values files and scratch folders."""

from __future__ import annotations

import os
import subprocess
from math import prod
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from warpsmith.errors import JudgeError
from warpsmith.processes.buffers import ALIGN_BYTES, NUMPY_DTYPE, Scratch, ValuesFile, extent_bytes, layout
from warpsmith.records import ITEM_BYTES, TensorSpec


@st.composite
def specs(draw: st.DrawFn) -> TensorSpec:
    """Any rank up to 4, any dtype, strides of a permuted, padded or expanded layout."""
    shape = tuple(draw(st.lists(st.integers(0, 5), max_size=4)))
    order = draw(st.permutations(range(len(shape))))
    stride, step = [0] * len(shape), 1
    for dim in order:
        stride[dim] = 0 if draw(st.integers(0, 5)) == 0 else step
        step *= max(shape[dim], 1) + draw(st.integers(0, 2))
    return TensorSpec(shape=shape, dtype=draw(st.sampled_from(sorted(NUMPY_DTYPE))), stride=tuple(stride))


@given(specs())
def test_extent_is_what_numpy_needs(spec: TensorSpec) -> None:
    item = ITEM_BYTES[spec.dtype]
    highest = max(
        (sum(i * s for i, s in zip(index, spec.stride, strict=True)) for index in np.ndindex(*spec.shape)),
        default=-1,
    )
    assert extent_bytes(spec) == (highest + 1) * item


@given(st.lists(specs(), max_size=6))
def test_layout_is_aligned_and_disjoint(many: list[TensorSpec]) -> None:
    offsets, size = layout(many)
    ends = [o + extent_bytes(s) for o, s in zip(offsets, many, strict=True)]
    assert all(o % ALIGN_BYTES == 0 for o in offsets)
    assert all(end <= start for end, start in zip(ends, [*offsets[1:], size], strict=False))
    assert size >= ALIGN_BYTES


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(specs(), max_size=4), st.integers(0, 255))
def test_what_one_writes_another_reads(tmp_path: Path, many: list[TensorSpec], byte: int) -> None:
    path = tmp_path / "values"
    path.unlink(missing_ok=True)
    writer = ValuesFile(path, many, create=True)
    for i in range(len(many)):
        writer.raw(i)[:] = (byte + i) % 2
    reader = ValuesFile(path, many)
    for i, (array, spec) in enumerate(zip(reader.arrays(), many, strict=True)):
        assert array.shape == spec.shape
        assert array.tobytes() == bytes([(byte + i) % 2]) * (prod(spec.shape) * ITEM_BYTES[spec.dtype])


def test_a_short_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "values").write_bytes(b"x")
    with pytest.raises(JudgeError, match="shorter"):
        ValuesFile(tmp_path / "values", [TensorSpec(shape=(1000,), dtype="float32", stride=(1,))])


def test_no_room_is_one_line_and_leaves_nothing() -> None:
    huge = TensorSpec(shape=(1 << 50,), dtype="float64", stride=(1,))
    with Scratch() as scratch:
        with pytest.raises(JudgeError, match="no room for"):
            ValuesFile(scratch.new("values"), [huge], create=True)
        assert list(scratch.path.iterdir()) == []


def test_folders_of_dead_processes_are_swept(tmp_path: Path) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    old, live = tmp_path / f"{Scratch.PREFIX}{dead.pid}-x", tmp_path / f"{Scratch.PREFIX}{os.getpid()}-x"
    old.mkdir()
    live.mkdir()
    with Scratch(tmp_path) as scratch:
        assert scratch.new("a") != scratch.new("a")
        assert not old.exists()
        assert live.exists()
    assert not scratch.path.exists()


def test_no_folder_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(JudgeError, match="cannot make a folder"):
        Scratch(tmp_path / "missing")


def test_threads_that_ask_at_once_get_paths_of_their_own(tmp_path: Path) -> None:
    """One asks while another has its number already and not yet its path."""
    others = []

    class Slow(str):
        def __format__(self, form: str) -> str:
            others.append(scratch.new("outputs"))
            return str(self)

    with Scratch(tmp_path) as scratch:
        assert scratch.new(Slow("outputs")) != others[0]

"""Input perturbation: new contents for every timed call, at a cost far below a copy: of each floating input a random eighth is
halved, and one element in some hundred from end to end; then, right before the clock starts, elements from end to end once more.

A kernel that keeps results and returns them when "the same" input comes again must be wrong or must miss: a
sampled fingerprint overlooks the change, a full one differs at every call. The scattered elements are for the
kernel that computes anew only the rows that changed: all but the shortest rows do. The late change is for the thread, or the stream, that
computes while the caches are evicted: what it saw is not what the call is given. It is sparse in large tensors, whose lines it
brings back into the cache. Halving is exact in every
binary format, so the supervisor rebuilds the contents of the last call from the values file and the seed
alone, and never takes the timed process's word for what it was given.
"""

from __future__ import annotations

import math
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...processes.buffers import ValuesFile, extent_bytes
from ...records import ITEM_BYTES, GraphInput, TensorSpec

INTEGER = ("int64", "int32")  # indices and targets, in any order; what is sorted stays as it is
FLOATING = ("float64", "float32", "float16", "bfloat16")
SHARE = 8
STEPS = (61, 127)  # between scattered elements, at least and at most
LATE_MOST = 1 << 14  # elements that change after the eviction, about: 1 MiB of cache lines at most
LEAST_ORDER = 4  # rows of an integer input, from which on their order changes

# Index in Graph.inputs, first element, end, step; elements counted in memory order. Floating elements are halved. Of integers
# the step is the size of a row, an item of the first dimension, and the order of the rows is reversed: what is said of a column
# stays true.
Slice = tuple[int, int, int, int]


def elements(item: GraphInput) -> int:
    """Elements of a tensor's memory, which differ in number from its own where it is strided or expanded."""
    return extent_bytes(item.spec) // ITEM_BYTES[item.spec.dtype]


def draw_perturbation(rng: random.Random, inputs: Sequence[GraphInput]) -> tuple[list[Slice], list[Slice]]:
    """Draw the slices that the next call finds changed, one after the other where they overlap: those that change before the
    caches are evicted, and those that change after it.
    """
    early, late = [], []
    for index, item in enumerate(inputs):
        count = elements(item)
        if item.role == "input" and item.spec.dtype in FLOATING and count > 0:
            length = max(1, count // SHARE)
            early.append(_stretch(rng, index, count, length))
            early.append(_scatter(rng, index, count, 1))
            late.append(_scatter(rng, index, count, max(1, count // (LATE_MOST * STEPS[0]))))
        elif item.role == "input" and item.spec.dtype in INTEGER and _has_rows(item.spec):
            rows = item.spec.shape[0]
            row = count // rows
            early.append(_stretch(rng, index, rows, rows // 2, row))
            late.append(_stretch(rng, index, rows, max(2, min(rows // 2, LATE_MOST // row)), row))
    return early, late


def _scatter(rng: random.Random, index: int, count: int, sparser: int) -> Slice:
    step = sparser * rng.randint(*STEPS)
    return index, rng.randrange(min(step, count)), count, step


def _stretch(rng: random.Random, index: int, count: int, length: int, unit: int = 1) -> Slice:
    """Draw `length` of `count` units that follow one another."""
    start = rng.randrange(count - length + 1)
    return index, start * unit, (start + length) * unit, unit


def _has_rows(spec: TensorSpec) -> bool:
    contiguous = tuple(math.prod(spec.shape[n + 1 :]) for n in range(len(spec.shape)))
    return bool(spec.shape) and spec.shape[0] >= LEAST_ORDER and spec.numel > 0 and spec.stride == contiguous


def is_sorted(values: Any) -> bool:
    """Return whether flat values never fall, or never rise: then their order may mean something, offsets of bags, say. `values`:
    an array or a tensor.
    """
    return bool((values[1:] >= values[:-1]).all()) or bool((values[1:] <= values[:-1]).all())


def replay_perturbation(inputs: Sequence[GraphInput], seed: int, calls: int) -> list[Slice]:
    """Draw again what the last of `calls` timed calls under `seed` found changed."""
    rng = random.Random(seed)
    early: list[Slice] = []
    late: list[Slice] = []
    for _ in range(calls):
        early, late = draw_perturbation(rng, inputs)
    return early + late


def write_perturbed(values: Path, inputs: Sequence[GraphInput], chosen: Sequence[Slice], path: Path) -> Path:
    """Write values with these slices changed to a new file `path`."""
    shutil.copyfile(values, path)
    file = ValuesFile(path, [i.spec for i in inputs])
    integers = {index for index, *_ in chosen if inputs[index].spec.dtype in INTEGER}
    fixed = {i for i in integers if is_sorted(file.raw(i).view(np.dtype(inputs[i].spec.dtype)))}
    for index, *bounds in chosen:
        dtype, part = inputs[index].spec.dtype, slice(*bounds)
        raw = file.raw(index)
        if dtype in INTEGER:
            if index not in fixed:
                rows = raw.view(np.dtype(dtype))[bounds[0] : bounds[1]].reshape(-1, bounds[2])
                rows[:] = rows[::-1].copy()
        elif dtype == "bfloat16":
            bits = raw.view(np.uint16)
            wide = (bits[part].astype(np.uint32) << 16).view(np.float32) * np.float32(0.5)
            bits[part] = (wide.view(np.uint32) >> 16).astype(np.uint16)
        else:
            flat = raw.view(np.dtype(dtype))
            flat[part] *= flat.dtype.type(0.5)
    return path

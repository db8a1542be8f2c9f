"""Input perturbation: new contents for every timed call, at a cost far below a copy: of each floating input a random eighth is
halved, and one element in some hundred from end to end.

A kernel that keeps results and returns them when "the same" input comes again must be wrong or must miss: a
sampled fingerprint overlooks the change, a full one differs at every call. The scattered elements are for the
kernel that computes anew only the rows that changed: all but the shortest rows do. Halving is exact in every
binary format, so the supervisor rebuilds the contents of the last call from the values file and the seed
alone, and never takes the timed process's word for what it was given.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ...processes.buffers import ValuesFile, extent_bytes
from ...records import ITEM_BYTES, GraphInput

FLOATING = ("float64", "float32", "float16", "bfloat16")
SHARE = 8
STEPS = (61, 127)  # between scattered elements, at least and at most

# Index in Graph.inputs, first element, end, step; elements counted in memory order.
Slice = tuple[int, int, int, int]


def elements(item: GraphInput) -> int:
    """Elements of a tensor's memory, which differ in number from its own where it is strided or expanded."""
    return extent_bytes(item.spec) // ITEM_BYTES[item.spec.dtype]


def draw_perturbation(rng: random.Random, inputs: Sequence[GraphInput]) -> list[Slice]:
    """Draw the slices that the next call finds halved, one after the other where they overlap."""
    chosen = []
    for index, item in enumerate(inputs):
        count = elements(item)
        if item.role == "input" and item.spec.dtype in FLOATING and count > 0:
            length = max(1, count // SHARE)
            start = rng.randrange(count - length + 1)
            step = rng.randint(*STEPS)
            chosen.append((index, start, start + length, 1))
            chosen.append((index, rng.randrange(min(step, count)), count, step))
    return chosen


def replay_perturbation(inputs: Sequence[GraphInput], seed: int, calls: int) -> list[Slice]:
    """Draw again what the last of `calls` timed calls under `seed` found halved."""
    rng, chosen = random.Random(seed), []
    for _ in range(calls):
        chosen = draw_perturbation(rng, inputs)
    return chosen


def write_perturbed(values: Path, inputs: Sequence[GraphInput], chosen: Sequence[Slice], path: Path) -> Path:
    """Write values with these slices halved to a new file `path`."""
    shutil.copyfile(values, path)
    file = ValuesFile(path, [i.spec for i in inputs])
    for index, *bounds in chosen:
        dtype, part = inputs[index].spec.dtype, slice(*bounds)
        raw = file.raw(index)
        if dtype == "bfloat16":
            bits = raw.view(np.uint16)
            wide = (bits[part].astype(np.uint32) << 16).view(np.float32) * np.float32(0.5)
            bits[part] = (wide.view(np.uint32) >> 16).astype(np.uint16)
        else:
            flat = raw.view(np.dtype(dtype))
            flat[part] *= flat.dtype.type(0.5)
    return path

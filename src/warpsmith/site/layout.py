"""Vectors as points of a plane, so that neighbours stay neighbours: a graph of nearest neighbours, laid out by attraction and repulsion.

In: unit vectors, a row each. Out: points in [0, 1]², and the nearest neighbours. The method is UMAP's low-dimensional half (McInnes et al. 2018,
https://arxiv.org/abs/1802.03426, with a = b = 1) in numpy, begun at the first two principal components. A seed makes it repeatable.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
NEIGHBOURS, NEGATIVES, EPOCHS, BLOCK = (
    8,
    4,
    160,
    512,
)  # of a point; of an edge; rounds; rows of similarities at once
MAX_STEP = 4.0
SEED = 20


def find_neighbours(vectors: Floats, count: int = NEIGHBOURS) -> tuple[Ints, Floats]:
    """Return the most similar others of each row, nearest first, and their cosines; shape (rows, at most `count`)."""
    rows, width = len(vectors), min(count, len(vectors) - 1)
    nearest, cosines = np.zeros((rows, max(width, 0)), np.int64), np.zeros((rows, max(width, 0)), np.float32)
    if width < 1:
        return nearest, cosines
    for first in range(0, rows, BLOCK):
        block = vectors[first : first + BLOCK] @ vectors.T
        index = np.arange(len(block))
        block[index, first + index] = -np.inf
        part = np.argpartition(-block, width - 1, axis=1)[:, :width]
        values = np.take_along_axis(block, part, axis=1)
        order = np.lexsort((part, -values), axis=1)
        nearest[first : first + BLOCK] = np.take_along_axis(part, order, axis=1)
        cosines[first : first + BLOCK] = np.take_along_axis(values, order, axis=1)
    return nearest, cosines


def lay_out(vectors: Floats, nearest: Ints) -> Floats:
    """Place each row in [0, 1]². Shape (rows, 2)."""
    rows = len(vectors)
    if rows < 2:
        return np.full((rows, 2), 0.5, np.float32)
    chance = np.random.default_rng(SEED)
    points = _begin(vectors, chance)
    tails = np.repeat(np.arange(rows), nearest.shape[1])
    heads = nearest.reshape(-1)
    for epoch in range(EPOCHS):
        rate = np.float32(1.0 - epoch / EPOCHS)
        pull = _pull(points[tails] - points[heads])
        _add(points, tails, pull * rate)
        _add(points, heads, -pull * rate)
        for _ in range(NEGATIVES):
            strangers = chance.integers(rows, size=rows)
            _add(points, np.arange(rows), _push(points - points[strangers]) * rate)
    return _normalise(points)


def _begin(vectors: Floats, chance: np.random.Generator) -> Floats:
    """Return the first two principal components, ten across, shaken a little so that equal rows part."""
    centred = vectors - vectors.mean(axis=0)
    values, axes = np.linalg.eigh(centred.T @ centred)
    axes = axes[:, np.argsort(values)[::-1][:2]]
    axes *= np.sign(
        axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])]
    )  # a sign that does not depend on the library
    points = np.zeros((len(vectors), 2), np.float32)
    points[:, : axes.shape[1]] = centred @ axes
    points *= 10.0 / max(float(np.abs(points).max()), 1e-6)
    return (points + chance.normal(0.0, 0.05, points.shape)).astype(np.float32)


def _pull(apart: Floats) -> Floats:
    square = (apart * apart).sum(axis=1, keepdims=True)
    return np.clip(-2.0 * apart / (1.0 + square), -MAX_STEP, MAX_STEP) * np.float32(0.25)


def _push(apart: Floats) -> Floats:
    square = (apart * apart).sum(axis=1, keepdims=True)
    return np.clip(2.0 * apart / ((0.001 + square) * (1.0 + square)), -MAX_STEP, MAX_STEP)


def _add(points: Floats, rows: Ints, steps: Floats) -> None:
    """Add steps to rows that may occur more than once."""
    for axis in range(2):
        points[:, axis] += np.bincount(rows, weights=steps[:, axis], minlength=len(points)).astype(np.float32)


def _normalise(points: Floats) -> Floats:
    """Scale to [0, 1]²; what lies far out is drawn at the edge."""
    low, high = np.quantile(points, 0.002, axis=0), np.quantile(points, 0.998, axis=0)
    result: Floats = np.clip((points - low) / np.maximum(high - low, 1e-6), 0.0, 1.0).astype(np.float32)
    return result

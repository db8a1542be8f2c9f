"""Kernels that are alike are found, and lie near each other on the map."""

from __future__ import annotations

import numpy as np
import pytest

from warpsmith.records import Candidate
from warpsmith.site.layout import find_neighbours, lay_out
from warpsmith.site.neighbours import MAX_RELATED, Neighbourhood
from warpsmith.testing import chain_candidate


def make_groups(groups: int, each: int) -> np.ndarray:
    """Unit vectors around so many centres."""
    chance = np.random.default_rng(1)
    centres = chance.standard_normal((groups, 64))
    vectors = np.repeat(centres, each, axis=0) + 0.1 * chance.standard_normal((groups * each, 64))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def test_neighbours_are_the_most_similar_without_the_point_itself() -> None:
    vectors = make_groups(3, 20)
    nearest, cosines = find_neighbours(vectors, 5)
    every = vectors @ vectors.T
    np.fill_diagonal(every, -1)
    assert (np.sort(nearest, axis=1) == np.sort(np.argsort(-every, axis=1)[:, :5], axis=1)).all()
    assert (np.diff(cosines, axis=1) <= 1e-6).all()


def test_a_group_lies_closer_together_than_apart() -> None:
    vectors = make_groups(4, 30)
    points = lay_out(vectors, find_neighbours(vectors)[0])
    assert points.min() >= 0
    assert points.max() <= 1
    centres = points.reshape(4, 30, 2).mean(axis=1)
    inside = np.linalg.norm(points.reshape(4, 30, 2) - centres[:, None], axis=2).mean()
    outside = np.linalg.norm(centres[:, None] - centres[None], axis=2)[np.triu_indices(4, 1)].min()
    assert outside > 2 * inside


def test_the_layout_repeats_itself() -> None:
    vectors = make_groups(2, 10)
    nearest = find_neighbours(vectors)[0]
    assert (lay_out(vectors, nearest) == lay_out(vectors, nearest)).all()


@pytest.mark.parametrize("rows", [0, 1, 2, 3])
def test_few_or_equal_points_are_laid_out(rows: int) -> None:
    vectors = np.ones((rows, 8), np.float32) / np.float32(np.sqrt(8))
    points = lay_out(vectors, find_neighbours(vectors)[0])
    assert points.shape == (rows, 2)
    assert np.isfinite(points).all()


def make_source(words: str, lines: int = 30) -> str:
    return "".join(f"float {words}{i} = x * {i};\n" for i in range(lines))


def make_candidate(technique: str, source: str, signature: str = "") -> Candidate:
    candidate = chain_candidate(technique, source)
    unit = candidate.units[0]
    region = unit.region.model_copy(update={"signature": signature or technique})
    return candidate.model_copy(update={"units": (unit.model_copy(update={"region": region}),)})


def test_relatives_come_by_signature_and_by_source() -> None:
    near = Neighbourhood()
    kernel = make_candidate("a", make_source("acc"), "same")
    fast, slow = (make_candidate(n, make_source(n), "same") for n in ("fast", "slow"))
    alike = make_candidate("alike", make_source("acc") + "float more;\n", "other")
    stranger = make_candidate("stranger", make_source("zzz"), "third")
    for candidate, low in ((kernel, 1.0), (slow, 1.1), (fast, 2.0), (alike, 9.0), (stranger, 9.0)):
        near.add(candidate, "task", "win", low)
    near.finish()
    relatives = near.list_relatives(kernel)
    assert [(r.dot.technique, r.why.split(" (")[0]) for r in relatives] == [
        ("fast", "same signature"), ("slow", "same signature"), ("alike", "similar source")
    ]  # fmt: skip


def test_a_kernel_is_not_its_own_relative_and_lists_are_short() -> None:
    near = Neighbourhood()
    kernel = make_candidate("a", make_source("acc"), "same")
    twin = kernel.model_copy(update={"lineage": kernel.lineage.model_copy(update={"reason": "again"})})
    others = [make_candidate(f"n{i}", make_source("acc", 30 + i), "same") for i in range(3 * MAX_RELATED)]
    for candidate in (kernel, twin, *others):
        near.add(candidate, "task", "win", 1.0)
    near.finish()
    relatives = near.list_relatives(kernel)
    assert 0 < len(relatives) <= 2 * MAX_RELATED
    assert kernel.content_key not in {r.dot.content_key for r in relatives}
    assert near.list_relatives(make_candidate("unknown", "x")) == []

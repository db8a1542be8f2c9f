"""Which families there are for a target: in C++ for "cpu", in CUDA C++ for "cuda"."""

from __future__ import annotations

from collections.abc import Mapping

from . import families, families_cuda
from .families import AnchoredFamily, Family


def families_of(target: str) -> Mapping[str, Family]:
    """By name, most specific first; none for a target that the expert does not write for."""
    return {"cpu": families.FAMILIES, "cuda": families_cuda.FAMILIES}.get(target, {})


def anchored_of(target: str) -> tuple[AnchoredFamily, ...]:
    """Those that cut their own regions."""
    return {"cpu": families.ANCHORED, "cuda": families_cuda.ANCHORED}.get(target, ())


def target_of(language: str) -> str:
    """Of a unit's language."""
    return "cuda" if language == "cuda" else "cpu"

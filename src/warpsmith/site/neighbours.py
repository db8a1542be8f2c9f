"""Which kernels are alike, over all tasks: by the signature of their regions, and by an embedding of their sources.

In: the tasks of the archives, one at a time. Out: for each kernel its relatives, and for all of them points of a map. Vectors are those of
`search/embedding.py` with lines for tokens, which is a hundredth of the work, folded to `WIDTH` numbers.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from ..records import Candidate, Unit
from ..search.embedding import SIZE, embed
from ..wording import label
from .layout import Floats, Ints, find_neighbours, lay_out

WIDTH = 128  # numbers of a folded vector: 5 MB for 10,000 kernels
MAX_RELATED, MAX_FAMILY = 6, 40  # of each kind; kernels of a signature that are looked at
LEAST_COSINE = 0.3


@dataclass(frozen=True)
class Dot:
    """A kernel as other pages speak of it."""

    id: str
    label: str
    family: str
    technique: str
    task: str  # name
    outcome: str
    low: float  # low end of its speedup over the fastest baseline; 0: none
    content_key: str


@dataclass(frozen=True)
class Relative:
    dot: Dot
    why: str


@dataclass
class Neighbourhood:
    """Filled a kernel at a time by `add`, closed by `finish`."""

    dots: list[Dot] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)  # candidate id → row
    points: Floats = field(default_factory=lambda: np.zeros((0, 2), np.float32))
    _vectors: list[Floats] = field(default_factory=list)
    _signatures: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    _signs: Floats = field(
        default_factory=lambda: np.random.default_rng(SIZE).choice(np.array([-1, 1], np.float32), SIZE)
    )
    _units: dict[str, Floats] = field(default_factory=dict)  # code key → vector
    _nearest: Ints = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    _cosines: Floats = field(default_factory=lambda: np.zeros((0, 0), np.float32))

    def add(self, candidate: Candidate, task: str, outcome: str, low: float) -> None:
        main = max(candidate.units, key=lambda u: len(u.source), default=None)
        row = self.rows[candidate.id] = len(self.dots)
        family, technique = (
            (main.family or "given", main.technique or "unnamed")
            if main is not None
            else ("all ATen", "all ATen")
        )
        self.dots.append(
            Dot(candidate.id, label(candidate), family, technique, task, outcome, low, candidate.content_key)
        )
        self._vectors.append(self._embed(candidate))
        for signature in {u.region.signature for u in candidate.units}:
            self._signatures[signature].append(row)

    def finish(self) -> None:
        """Find neighbours and lay out the map."""
        vectors = np.array(self._vectors, np.float32).reshape(len(self.dots), WIDTH)
        self._nearest, self._cosines = find_neighbours(vectors)
        self.points = lay_out(vectors, self._nearest)
        self._vectors, self._units = [], {}

    def list_relatives(self, candidate: Candidate) -> list[Relative]:
        """List kernels for the same kind of region, the fastest first, then those whose sources are alike. None has the same content."""
        row = self.rows.get(candidate.id)
        if row is None:
            return []
        shown = {candidate.content_key}
        relatives: list[Relative] = []
        same = {r for u in candidate.units for r in self._signatures.get(u.region.signature, [])[:MAX_FAMILY]}
        for relative in sorted(same, key=lambda r: (-self.dots[r].low, self.dots[r].id)):
            relatives += self._take(relative, "same signature", shown, len(relatives) < MAX_RELATED)
        count = len(relatives) + MAX_RELATED
        for relative, cosine in zip(self._nearest[row], self._cosines[row], strict=True):
            if cosine >= LEAST_COSINE:
                relatives += self._take(
                    int(relative), f"similar source ({cosine:.2f})", shown, len(relatives) < count
                )
        return relatives

    def _take(self, row: int, why: str, shown: set[str], has_room: bool) -> list[Relative]:
        dot = self.dots[row]
        if not has_room or dot.content_key in shown:
            return []
        shown.add(dot.content_key)
        return [Relative(dot, why)]

    def _embed(self, candidate: Candidate) -> Floats:
        total = np.zeros(WIDTH, np.float32)
        for unit in candidate.units:
            if unit.code_key not in self._units:
                self._units[unit.code_key] = _fold(embed(_list_tokens(unit)), self._signs)
            total += self._units[unit.code_key]
        length = float(np.linalg.norm(total))
        return total / np.float32(length) if length else total


def _list_tokens(unit: Unit) -> list[str]:
    lines = [" ".join(line.split()) for line in unit.text.splitlines()]
    return [unit.family, unit.technique, *(line for line in lines if line)]


def _fold(vector: Floats, signs: Floats) -> Floats:
    """Add up the parts of a long vector with signs at random: cosines stay what they were, on average."""
    folded: Floats = (vector * signs).reshape(-1, WIDTH).sum(axis=0)
    return folded

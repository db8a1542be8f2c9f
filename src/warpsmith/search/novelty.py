"""Novelty: what is not worth judging, because it is what was judged before in other words.

In: candidates before they are judged. Out: why one is like an earlier one, or nothing. Three tests, cheapest first: the same source
once comments, blanks and the spelling of local names are set aside; a rewritten source so close to an earlier one that their
embeddings nearly coincide; the same machine code, where somebody can say what it is. Values of tunables and flags decide the
binary, so that a candidate at other values is never like another by its source. Embeddings are hashed n-grams of tokens (feature
hashing: Weinberger et al., https://arxiv.org/abs/0902.2206): no model, and the same on every machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ..records import Candidate, Unit, content_hash
from .embedding import embed
from .normal_form import normalise

THRESHOLD = 0.995
REWRITING = frozenset({"seed", "rewrite", "restart", "transplant"})  # others change little on purpose
Embedding = npt.NDArray[np.float32]


class Novelty:
    """`threshold`: cosine from which on a rewritten source is like an earlier one; None or 0: no test rejects anything.
    `assembly`: the machine code of a unit, or a hash of it; empty when it is not known.
    """

    def __init__(
        self, threshold: float | None = THRESHOLD, assembly: Callable[[Unit], str] | None = None
    ) -> None:
        self.rejected: Counter[str] = Counter()  # which test → candidates
        self._threshold, self._assembly = threshold, assembly
        self._forms: dict[str, Candidate] = {}
        self._codes: dict[str, Candidate] = {}
        self._written: dict[tuple[str, ...], list[tuple[Candidate, list[Embedding]]]] = {}
        self._normal: dict[str, str] = {}  # source → normal form
        self._embedded: dict[str, Embedding] = {}  # normal form → embedding

    def like(self, candidate: Candidate) -> str:
        """Why it is not new, with the id of the earlier one; empty when it is new. What is rejected is counted."""
        if not self._threshold:
            return ""
        earlier = self._forms.get(self._form(candidate))
        if earlier is not None:
            return self._reject("same source", f"same source after normalisation as {earlier.id[:8]}")
        similarity, earlier = self._nearest(candidate)
        if earlier is not None and similarity >= self._threshold:
            return self._reject("like another source", f"{similarity:.4f} like {earlier.id[:8]}")
        earlier = self._codes.get(self._code(candidate))
        if earlier is not None:
            return self._reject("same assembly", f"same assembly as {earlier.id[:8]}")
        return ""

    def add(self, candidate: Candidate) -> None:
        """Remember a candidate that was judged."""
        if not self._threshold:
            return
        self._forms.setdefault(self._form(candidate), candidate)
        if code := self._code(candidate):
            self._codes.setdefault(code, candidate)
        self._written.setdefault(_cover(candidate), []).append((candidate, self._vectors(candidate)))

    def _reject(self, test: str, reason: str) -> str:
        self.rejected[test] += 1
        return reason

    def _form(self, candidate: Candidate) -> str:
        return content_hash([[self._normal_source(u), *_list_declarations(u)] for u in candidate.units])

    def _normal_source(self, unit: Unit) -> str:
        if unit.source not in self._normal:
            self._normal[unit.source] = normalise(unit.source) or unit.source
        return self._normal[unit.source]

    def _code(self, candidate: Candidate) -> str:
        """Hash of all units' machine code; empty when one of them is not known."""
        if self._assembly is None or not candidate.compiled:
            return ""
        codes = [self._assembly(u) for u in candidate.compiled]
        declarations = [_list_declarations(u) for u in candidate.units if not u.compiled]
        judged_as = [[u.region.id, u.requires, u.atomics] for u in candidate.compiled]
        return content_hash([codes, judged_as, declarations]) if all(codes) else ""

    def _nearest(self, candidate: Candidate) -> tuple[float, Candidate | None]:
        """The most similar earlier candidate: as similar as the least similar of its units."""
        if candidate.lineage.operator not in REWRITING:
            return 0.0, None
        best: tuple[float, Candidate | None] = (0.0, None)
        vectors = self._vectors(candidate)
        for earlier, vector in self._written.get(_cover(candidate), []):
            pairs = zip(candidate.units, vectors, earlier.units, vector, strict=True)
            alike = min((_alike(u, v, w, x) for u, v, w, x in pairs), default=0.0)
            if alike > best[0]:
                best = alike, earlier
        return best

    def _vectors(self, candidate: Candidate) -> list[Embedding]:
        return [self._vector(u) for u in candidate.units]

    def _vector(self, unit: Unit) -> Embedding:
        source = self._normal_source(unit)
        if source not in self._embedded:
            self._embedded[source] = embed(source.split(" "))
        return self._embedded[source]


def _cover(candidate: Candidate) -> tuple[str, ...]:
    return tuple(u.region.id for u in candidate.units)


def _list_declarations(unit: Unit) -> list[Any]:
    """List what decides the binary and how it is judged, beside the source."""
    rewrite = unit.rewrite.id if unit.rewrite is not None else ""
    return [
        unit.region.id, unit.language, sorted(unit.values.items()), unit.flags, unit.requires, unit.atomics, rewrite
    ]  # fmt: skip


def _alike(unit: Unit, vector: Embedding, other: Unit, its: Embedding) -> float:
    """Cosine of two sources for one region, 0 where they differ in more than the source."""
    return float(vector @ its) if _list_declarations(unit) == _list_declarations(other) else 0.0

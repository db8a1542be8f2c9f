"""The families of folded normalisations; no code, so one for both targets."""

from __future__ import annotations

from ..family import Listed
from .fold import FOLD

FAMILIES = (
    Listed("cpu", 180, FOLD),
    Listed("cuda", 180, FOLD),
)

"""The family of library alternatives. On a GPU alone: on a CPU the expert has kernels or leaves a part as it is."""

from __future__ import annotations

from ..family import Listed
from .library import LIBRARY

FAMILIES = (Listed("cuda", 190, LIBRARY),)

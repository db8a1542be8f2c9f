"""The families of local response normalisation."""

from __future__ import annotations

from ..family import Listed
from .cpu.cpp_lrn import CppLrn

FAMILIES = (Listed("cpu", 30, CppLrn()),)

"""The families of data movement."""

from __future__ import annotations

from ..family import Listed
from .cpu.cpp_data_movement import CppDataMovement

FAMILIES = (Listed("cpu", 120, CppDataMovement()),)

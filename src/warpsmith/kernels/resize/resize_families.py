"""The families of upsampling."""

from __future__ import annotations

from ..family import Listed
from .cpu.cpp_upsample import CppUpsample

FAMILIES = (Listed("cpu", 60, CppUpsample()),)

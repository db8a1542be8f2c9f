"""The rules by which units are written for a target, for authors: one markdown text a target, and its helper
header.
"""

from __future__ import annotations

from pathlib import Path

from ..targets.helper_api import describe_helpers
from ..targets.native_target import HEADERS

HELPERS = {"cpu": "warpsmith_simd.h", "cuda": "warpsmith_cuda.h"}
ELSE = "A unit is one source file for one region; its target's own documentation says how it is written.\n"


def text(target: str) -> str:
    path = Path(__file__).with_name(f"rules_{target}.md")
    return f"{path.read_text(encoding='utf-8')}\n{describe_helpers(target)}\n" if path.is_file() else ELSE


def helper(target: str) -> Path | None:
    """The header of small parts that units of the target may include; None: there is none."""
    return HEADERS / HELPERS[target] if target in HELPERS else None

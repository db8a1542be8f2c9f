"""Text of an archive in a form that can do no harm: as a name of a file, and in front of a reader."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from markupsafe import Markup

from ..records.record import content_hash

CLIP = 300  # characters of a cell
FIT = re.compile(r"(?!x-)[a-z0-9][a-z0-9_-]{4,79}")  # shorter ones may be devices of Windows, such as con
BREAKS = "\n\t"
UNSEEN = frozenset(
    {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
)  # categories: controls, formats, halves of pairs, private, separators


def make_file_id(identifier: str) -> str:
    """Return the name of the files of a record: its id, or a hash of one that is not fit to be a file's name."""
    return identifier if FIT.fullmatch(identifier) else f"x-{content_hash(identifier)}"


def show_controls(text: str) -> str:
    """Write characters that are not seen, or that turn the direction of text, by their numbers."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        f"[U+{ord(c):04X}]" if unicodedata.category(c) in UNSEEN and c not in BREAKS else c for c in text.replace("\r\n", "\n")
    )  # fmt: skip


def clip(text: str, size: int = CLIP) -> str:
    """Shorten a text to so many characters."""
    return text if len(text) <= size else text[: size - 1] + "…"


def make_breakable(text: str) -> Markup:
    """Let a browser break a long name after an underscore, and not within a word."""
    return Markup("_<wbr>").join(show_controls(text).split("_"))


def finalize(value: Any) -> Any:
    """Make a template's value printable; markup of our own passes as it is."""
    if value is None:
        return ""
    return show_controls(value) if isinstance(value, str) and not isinstance(value, Markup) else value

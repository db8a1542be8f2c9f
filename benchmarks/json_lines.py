"""What a benchmark wrote before it was stopped, so that the same command goes on from there."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any


def known_lines(file: Path) -> list[dict[str, Any]]:
    """Objects of a file of JSON lines; one cut short by a kill is left out. Empty where there is no file."""
    found = []
    for text in file.read_text().splitlines() if file.exists() else ():
        with contextlib.suppress(ValueError):
            found.append(json.loads(text))
    return found

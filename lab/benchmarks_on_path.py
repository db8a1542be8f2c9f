"""`import benchmarks_on_path` puts the instruments of `benchmarks/` on the path, for the imports that follow it."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "benchmarks"))

"""Compiled files that test processes share: each is made aside and renamed, so that nobody sees half of one."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path


def built_once(folder: Path, make: Callable[[Path], list[str]]) -> Path:
    """Return `folder`, which holds what `make` wrote into its argument and what the command that it returned made there.
    Several processes may call this at once; the first that ends is kept.
    """
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=".new-", dir=folder.parent))
        try:
            done = subprocess.run(make(aside), cwd=aside, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr[:3000]
            aside.rename(folder)
        except OSError:
            if not folder.exists():  # else another process was first
                raise
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    return folder

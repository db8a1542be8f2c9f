"""The archive's site, built when somebody asks for it, by a process of low priority: a page that is looked at must not disturb what is timed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import psutil

from ..places import ArchiveUrl

NICENESS = 19  # the lowest priority
State = Literal["none", "building", "ready", "failed"]


class SiteFolder:
    """A context manager. `folder` has the site once it was built; a later build takes its place when it is complete."""

    def __init__(self, where: Path | ArchiveUrl) -> None:
        self._where = where.secret if isinstance(where, ArchiveUrl) else str(where.resolve())
        self._parent = tempfile.TemporaryDirectory(prefix="warpsmith-ui-")
        self.folder = Path(self._parent.name) / "site"
        self.folder.mkdir()
        self.state: State = "none"
        self.built_at = self.trouble = ""
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> SiteFolder:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            if self._process is not None:
                self._process.kill()
        self._parent.cleanup()

    def build(self) -> None:
        """Begin to build, unless that is under way."""
        with self._lock:
            if self.state == "building":
                return
            self.state = "building"
            began = datetime.now(UTC).isoformat(timespec="seconds")
            command = [
                sys.executable,
                "-m",
                "warpsmith",
                "site",
                "build",
                str(self.folder),
                "--force",
                "--quiet",
            ]
            environment = os.environ | {
                "WARPSMITH_ARCHIVE": self._where
            }  # a URL's password is in no list of processes
            self._process = subprocess.Popen(
                command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
            )
            psutil.Process(self._process.pid).nice(NICENESS)
            threading.Thread(target=self._wait, args=(self._process, began), daemon=True).start()

    def _wait(self, process: subprocess.Popen[str], began: str) -> None:
        errors = process.communicate()[1]
        with self._lock:
            self._process = None
            if process.returncode == 0:
                self.state, self.built_at, self.trouble = "ready", began, ""
            else:
                self.state, self.trouble = "failed", (errors.strip().splitlines() or ["it was killed"])[-1]

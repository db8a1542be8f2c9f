"""An interrupt is not lost, wherever it arrives."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import signal, time
from warpsmith.cli.main import stay_interruptible

class Interrupted:
    def __del__(self):
        signal.raise_signal(signal.{signal})

stay_interruptible()
try:
    held = Interrupted()
    del held
    time.sleep(20)
    print("lost")
except KeyboardInterrupt:
    print("interrupted")
"""


def test_an_interrupt_while_an_object_is_destroyed_is_raised_again() -> None:
    for name in ("SIGINT", "SIGTERM"):
        done = subprocess.run(
            [sys.executable, "-c", CODE.format(signal=name)], capture_output=True, text=True
        )
        assert done.stdout == "interrupted\n", done.stderr

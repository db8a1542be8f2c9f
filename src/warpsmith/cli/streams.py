"""The standard streams as a command line finds them: one that is closed, one that cannot write our signs, a pipe nobody reads.

A closed stream is /dev/null. What an encoding lacks is written as `?`. A reader that has gone ends the program
silently with 141, which a shell says of a program that SIGPIPE ended.
"""

from __future__ import annotations

import os
import select
import sys
from io import TextIOWrapper

READER_GONE = 141  # 128 + SIGPIPE
STREAMS = ("stdin", "stdout", "stderr")


def prepare_streams() -> None:
    """Make all three usable. The lowest free descriptor is that of the first closed stream."""
    for number, name in enumerate(STREAMS):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(opened, True)
            setattr(sys, name, os.fdopen(opened, "w" if number else "r", encoding="utf-8"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def drop_abandoned_streams() -> bool:
    """Send what is left to write to /dev/null, or the flush at exit fails again. False where every reader is still there."""
    abandoned = [number for number in (1, 2) if _is_abandoned(number)]
    for number in abandoned:
        os.dup2(os.open(os.devnull, os.O_WRONLY), number)
    return bool(abandoned)


def _is_abandoned(number: int) -> bool:
    poll = select.poll()
    poll.register(number, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))

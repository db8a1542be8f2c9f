"""For all tests."""

from __future__ import annotations

import signal
import threading

import pytest


@pytest.fixture(autouse=True, scope="session")
def _interrupts_arrive() -> None:
    """Whoever runs the tests in the background of a shell ignores SIGINT, and what they start would, too."""
    ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    if ignored and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)

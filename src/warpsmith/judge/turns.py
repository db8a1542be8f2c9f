"""Who may use a device: many compute at a time, or one measures alone.

A measurement that is waiting goes before those who would begin to compute, so that it gets its turn.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Turns:
    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._computing = self._waiting = 0
        self._measuring = False

    @contextmanager
    def computing(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._measuring and not self._waiting)
            self._computing += 1
        try:
            yield
        finally:
            with self._changed:
                self._computing -= 1
                self._changed.notify_all()

    @contextmanager
    def measuring(self) -> Iterator[None]:
        with self._changed:
            self._waiting += 1
            self._changed.wait_for(lambda: not self._measuring and not self._computing)
            self._waiting -= 1
            self._measuring = True
        try:
            yield
        finally:
            with self._changed:
                self._measuring = False
                self._changed.notify_all()

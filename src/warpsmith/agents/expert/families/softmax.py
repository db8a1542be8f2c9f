"""softmax, log_softmax and logsumexp over any axis: a maximum and a sum of exponentials."""

from __future__ import annotations

from .loops import ReducingFamily

SOFTMAX = ReducingFamily("softmax", frozenset({"_softmax", "_log_softmax", "logsumexp"}), compound=True)

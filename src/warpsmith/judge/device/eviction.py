"""Cache eviction: how much memory traffic evicts this machine's caches.

In: a number of threads. Out: bytes, for whoever times calls with cold caches.
"""

from __future__ import annotations

import math
import os

from ... import machine

FLUSH_MOST = 512 << 20
EVICTION = 4  # times the size of a cache that is read to evict it


def flush_bytes(threads: int) -> int:
    """Bytes to read or write between cold calls: four times the last-level caches that `threads` cores share.

    Twice is not enough: a third of an 8 MB input was still cached after it, more or less by the luck of a
    process's pages, which made one of two processes with the same code faster for as long as it lived.
    """
    caches = machine.cache_bytes()
    last = caches[max(caches)] if caches else 32 << 20
    sharing = _cores_sharing(len(caches))
    return min(FLUSH_MOST, EVICTION * last * max(1, math.ceil(threads / sharing)))


def _cores_sharing(level: int) -> int:
    path = machine.CPU_DIR / f"cpu{machine.affinity()[0]}" / "cache" / f"index{level}" / "shared_cpu_list"
    try:
        text = path.read_text().strip()
    except OSError:
        return os.cpu_count() or 1
    spans = [part.split("-") for part in text.split(",") if part]
    return sum(int(s[-1]) - int(s[0]) + 1 for s in spans) or 1

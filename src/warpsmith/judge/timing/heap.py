"""The heap of a timing process: brought to rest, and laid out anew for each block of calls.

In: sizes that the calls will allocate. Out: free holes for them at random offsets within a page.

Where an array lies relative to another decides how fast the same code runs: a load is held up when a store to
an address with the same low twelve bits is pending ("4K aliasing"), and GELU whose output lies one cache line
beyond its input, modulo a page, runs 10 % longer. Consecutive blocks of glibc's heap lie just so, or not, by the
history of the heap, for as long as the process lives: of two processes with the same code one was surely
faster. Drawn anew for each block, that luck is noise, which the rounds show and average out. The holes are
touched first, so that no timed call meets a page fault.
"""

from __future__ import annotations

import ctypes
import random
from collections.abc import Sequence

MMAP_THRESHOLD = 32 << 20  # larger blocks come zeroed from the system, on page boundaries
HOLE_LEAST = 1 << 20  # smaller blocks come from wherever they come; the same place each time
MAX_HOLE_BYTES = 128 << 20  # in all
MAX_PLUG_BYTES = 512 << 20  # of older free memory that is kept from being used
MAX_SWEPT_BYTES, MIN_SWEPT_BYTES = (
    4 << 20,
    4 << 10,
)  # of free memory that is overwritten in all, and of a piece
LINE, PAGE = 64, 4096
ALIGNING = 2 * LINE  # bytes that glibc's memalign asks for beyond a block
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # glibc's malloc.h


class _Mallinfo2(ctypes.Structure):
    _fields_ = [(f"field{i}", ctypes.c_size_t) for i in range(9)] + [("keepcost", ctypes.c_size_t)]


_libc = ctypes.CDLL(None)
_libc.malloc.restype, _libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
_libc.realloc.restype, _libc.realloc.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t]
_libc.free.restype, _libc.free.argtypes = None, [ctypes.c_void_p]
_mallinfo2 = getattr(_libc, "mallinfo2", None)  # glibc 2.33 and later
if _mallinfo2 is not None:
    _libc.sbrk.restype, _libc.sbrk.argtypes, _mallinfo2.restype = ctypes.c_void_p, [ctypes.c_long], _Mallinfo2


def at_rest() -> None:
    """Bring glibc's thresholds to where a long-running process ends up, and keep the heap's top.

    glibc raises its mmap threshold (to at most 32 MiB) as blocks are freed, and then keeps or returns memory
    to the system by the luck of the heap's layout: the same code would then run with page faults in one
    process and without them in another.
    """
    mallopt = getattr(_libc, "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD)
        mallopt(M_TRIM_THRESHOLD, 1 << 30)


class Holes:
    """Free holes of the heap, one for each size below the mmap threshold, of just that size, and apart from
    one another by kept pieces of random length. `close` gives the pieces back.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        holes, room = [], MAX_HOLE_BYTES
        for size in random.sample(sizes, len(sizes)):
            if HOLE_LEAST <= size < MMAP_THRESHOLD - 2 * PAGE and size <= room:
                holes.append((LINE * random.randrange(1, PAGE // LINE + 1), size + ALIGNING))
                room -= size
        self._kept = plugs({hole for _, hole in holes})
        blocks = [_libc.malloc(piece + hole) for piece, hole in holes]
        for block, (piece, hole) in zip(blocks, holes, strict=True):
            ctypes.memset(block, 0xFF, piece + hole)
        self._kept += [_libc.realloc(b, piece) for b, (piece, _) in zip(blocks, holes, strict=True)]

    def close(self) -> None:
        while self._kept:
            _libc.free(self._kept.pop())


def plugs(sizes: set[int]) -> list[int]:
    """Blocks that fill what is free below the heap's top and would fit one of the sizes: an old hole that
    fits best would be used again and again.
    """
    return [block for block, _ in _below_top(sizes, MAX_PLUG_BYTES)]


def sweep(sizes: set[int]) -> None:
    """Overwrite the free memory that blocks of these sizes may be made of, and pieces of it: freed pieces join
    their neighbours, so the next block need not lie where the last one did.
    """
    halves = {size >> shift for size in sizes for shift in range(size.bit_length())}
    blocks = _below_top({size for size in halves if size >= MIN_SWEPT_BYTES}, MAX_SWEPT_BYTES)
    for block, size in blocks:
        ctypes.memset(block, 0xFF, size)
    for block, _ in blocks:
        _libc.free(block)


def _below_top(sizes: set[int], room: int) -> list[tuple[int, int]]:
    """(address, bytes) of new blocks that fill the free memory below the heap's top, the largest size first."""
    if _mallinfo2 is None:
        return []
    top = _libc.sbrk(0) - _mallinfo2().keepcost
    blocks = []
    for size in sorted(sizes, reverse=True):
        while size <= room:
            block = _libc.malloc(size)
            if block >= top:
                _libc.free(block)
                break
            blocks.append((block, size))
            room -= size
    return blocks

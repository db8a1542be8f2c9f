"""An event loop in a thread of its own: threads hand it coroutines and wait, at most so many at a time.

The provider libraries are asynchronous and tie a connection to its loop; with one loop for all of a run's models,
any thread may ask, and connections are reused.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


class Background:
    def __init__(self, concurrency: int) -> None:
        self._loop = asyncio.new_event_loop()
        self._slots = asyncio.Semaphore(concurrency)
        self._thread = threading.Thread(target=self._loop.run_forever, name="models", daemon=True)
        self._thread.start()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what the work returns, once there is a slot for it. An interrupt while waiting cancels it."""
        future = asyncio.run_coroutine_threadsafe(self._in_slot(work), self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def _in_slot(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            async with self._slots:
                return await work
        finally:
            work.close()  # of one that was cancelled before it began

    def close(self, *last: Coroutine[Any, Any, None]) -> None:
        """Cancel what is under way, do what is left to do, and end the thread."""
        asyncio.run_coroutine_threadsafe(_end(last), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _end(last: Iterable[Coroutine[Any, Any, None]]) -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, *last, return_exceptions=True)

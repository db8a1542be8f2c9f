"""Starts the fork server before its first worker is needed: it imports what workers take while this process imports the rest and loads a task.

The server stays until this process ends. So a second task of a suite, and a second submission of an author, import nothing again.
"""

from __future__ import annotations

from . import machine
from .processes import forked

HOSTED = "warpsmith.tasks.hosted"
# With CUDA either may start a thread, after which nothing is forked.
EXPORTER = "torch.export._trace"  # a second of imports
COMPILER = ("torch._dynamo", "torch._inductor.compile_fx")
HOST = ("warpsmith.tasks.host", HOSTED)
JUDGE = (
    "warpsmith.judge.correctness.reference", "warpsmith.judge.timing.bench_worker", "warpsmith.judge.timing.zygote"
)  # fmt: skip


def start_ahead(baselines: str | None = None) -> None:
    """Start the server, unless there is one, in the order in which a run needs its workers; return at once. `baselines`: their names with
    commas, if they are known: where none compiles, torch's compiler is imported by whoever needs it after all.
    """
    compiler = COMPILER if baselines is None or "compile" in baselines else ()
    if machine.has_gpu_device():
        forked.start_ahead((*HOST, *JUDGE), doubtful=(EXPORTER, *COMPILER))
    else:
        forked.start_ahead((*HOST, EXPORTER, *JUDGE, *compiler))


__all__ = ["COMPILER", "EXPORTER", "HOSTED", "start_ahead"]

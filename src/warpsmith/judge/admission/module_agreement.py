"""Checks that the user's module gives what its exported graph gives.

In: what a call of the module returned, and the process that runs it. Out: a `Check`, with a note where it rests on a
second look. cuDNN computes float32 convolutions in TF32 unless it is told otherwise, and which algorithm it takes depends on
the caller. Behind batch statistics and a softmax that difference can exceed any budget, though the graph means the same.
So a module that disagrees on a GPU is called once more with TF32 off, beside a reference with TF32 off: what agrees there
is the same function. Candidates are held to the usual budget either way.
"""

from __future__ import annotations

from ...errors import TaskError
from ...records import Check, Task
from ..correctness.verify import FEW_DRAWS, Verifier
from ..timing.interleaved_rounds import TimedSample
from ..timing.timed_process import TimedProcess

TF32_NOTE = "the module and its exported graph agree in full float32, not in TF32"


def check_module(
    verifier: Verifier, process: TimedProcess, sample: TimedSample, variant: str, seed: int, draws: int = FEW_DRAWS
) -> str:  # fmt: skip
    """A note for the user, mostly empty. Removes the sample. Raises TaskError where the module and its graph disagree."""
    try:
        check = verifier.check_whole(variant, sample, seed, draws)
        if check.ok:
            return ""
        if verifier.evidence.workers.device == "cuda" and _agrees_in_float32(
            verifier, process, sample, variant, seed, draws
        ):
            return f"{TF32_NOTE} ({check.detail})"
        raise _disagreement(verifier.task, check)
    finally:
        sample.remove()


def _agrees_in_float32(
    verifier: Verifier, process: TimedProcess, sample: TimedSample, variant: str, seed: int, draws: int
) -> bool:
    process.allow_tf32(False)
    try:
        process.prepare(sample.file, 1, alone=False)
        outputs = process.outputs(process.folder / "outputs-float32", sample.rows)
        process.rest()
    finally:
        process.allow_tf32(True)
    given_path = process.folder / "given-float32"
    sample_without_tf32 = TimedSample(
        sample.name, outputs, sample.rows, sample.file, sample.inputs, (), given_path
    )
    try:
        return verifier.check_whole(variant, sample_without_tf32, seed, draws, tf32=False).ok
    finally:
        sample_without_tf32.remove()


def _disagreement(task: Task, check: Check) -> TaskError:
    return TaskError(f"{task.name}: the exported graph and the module disagree: {check.detail}")

"""Checks that the user's module gives what its exported graph gives.

In: what a call of the module returned, and the process that runs it. Out: a `ModuleAgreement`. cuDNN computes float32 convolutions in TF32 unless it is told otherwise, and which algorithm it takes depends on
the caller. Behind batch statistics and a softmax that difference can exceed any budget, though the graph means the same.
So a module that disagrees on a GPU is called once more with TF32 off, beside a reference with TF32 off: what agrees there
is the same function. Candidates are held to the usual budget either way.

Where rounding alone decides an output (batch statistics of two values, say), module and graph differ by a few budgets in any
arithmetic. Such a task cannot tell right from wrong: it is quarantined, not refused. A graph that means something else is
further off.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import TaskError
from ...records import Admission, Check, Task
from ..correctness.tolerance import APPEAL
from ..correctness.verify import FEW_DRAWS, Verifier
from ..timing.interleaved_rounds import TimedSample
from ..timing.timed_process import TimedProcess

ILL_CONDITIONED = (
    "rounding alone decides what the module returns: two runs of it in other orders of summation differ"
)
TF32_NOTE = "the module and its exported graph agree in full float32, not in TF32"


@dataclass(frozen=True)
class ModuleAgreement:
    """`note`: for the user, if there is something to say. `doubt`: why the task cannot tell right from wrong, if it cannot."""

    note: str = ""
    doubt: str = ""


def check_module(
    verifier: Verifier, process: TimedProcess, sample: TimedSample, variant: str, seed: int, draws: int = FEW_DRAWS
) -> ModuleAgreement:  # fmt: skip
    """Removes the sample. Raises TaskError where the module and its graph surely disagree."""
    try:
        check = verifier.check_whole(variant, sample, seed, draws)
        if not check.ok and verifier.evidence.workers.device == "cuda":
            full = _check_in_float32(verifier, process, sample, variant, seed, draws)
            if full.ok:
                return ModuleAgreement(note=f"{TF32_NOTE} ({check.detail})")
            check = full
        if check.ok:
            return ModuleAgreement()
        if check.rule == "budget" and check.error <= APPEAL:
            doubt = f"{ILL_CONDITIONED}: {check.detail}"
            return ModuleAgreement(doubt, doubt)
        raise _disagreement(verifier.task, check)
    finally:
        sample.remove()


def quarantine(admission: Admission, doubt: str) -> Admission:
    """The admission of a task whose module leaves this doubt; the same one for none."""
    if not doubt:
        return admission
    return admission.model_copy(update={"admitted": False, "reasons": (*admission.reasons, doubt)})


def _check_in_float32(
    verifier: Verifier, process: TimedProcess, sample: TimedSample, variant: str, seed: int, draws: int
) -> Check:
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
        return verifier.check_whole(variant, sample_without_tf32, seed, draws, tf32=False)
    finally:
        sample_without_tf32.remove()


def _disagreement(task: Task, check: Check) -> TaskError:
    return TaskError(f"{task.name}: the exported graph and the module disagree: {check.detail}")

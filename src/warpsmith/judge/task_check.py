"""A check of a task: whether it tells right from wrong, and whether its graph is the module, within a bound of time.

In: a task. Out: an `Admission` that says what the time did not suffice for. Only what that needs is started: the
reference worker, the task host and one process with the user's module. Nothing is compiled, no limit of the machine is
measured, nothing is timed. When the time is over the processes are killed, whatever they do.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from ..errors import JudgeError
from ..processes.worker import Worker
from ..records import Admission
from .admission.admission import admit
from .admission.module_agreement import ModuleAgreement, check_module, quarantine
from .admission.time_bound import TimeBound
from .correctness.plan import ADMISSION
from .device.memory import check_memory
from .judge_session import JudgeSession
from .sample_rows import draw_rows_of_outputs
from .timing.baselines import EAGER, Baselines
from .timing.interleaved_rounds import TimedSample
from .timing.timed_process import TimedProcess

MODULE_UNCHECKED = "whether the module itself gives what its exported graph gives"


class TaskCheck(JudgeSession):
    """A context manager, as a judge is; `check` it once."""

    _modules: Baselines | None = None

    def check(self, bound: TimeBound | None = None) -> Admission:
        """Raises TaskError when the task does not fit or does not run, or its module and its graph disagree, JudgeError
        when a trusted process is lost.
        """
        bound = bound or TimeBound()
        check_memory(self.task, self._room(), self.device)
        self.workdir.mkdir(parents=True, exist_ok=True)
        with self._guard_trusted("the task could not be checked"), bound.stopping(self._kill):
            self.progress(f"starting the reference ({bound})")
            self._start_workers()
            admission = admit(
                self.task, self.evidence, ADMISSION, self._draw(), bound=bound, progress=self.progress
            )
            if not bound.over:
                self.progress(f"comparing the module with its exported graph ({bound})")
            compared = bound.attempt(self._compare_module)
        if compared is None:
            return admission.model_copy(update={"unchecked": (*admission.unchecked, MODULE_UNCHECKED)})
        return quarantine(admission, compared.doubt)

    def _compare_module(self) -> ModuleAgreement:
        """Raises TaskError where they disagree."""
        values = self.evidence.values(self._own)
        process = self._start_module()
        with self.device_lock.run_in_background(process.pause, process.resume):
            looks = (
                ()
                if self._sampled_elements is None
                else draw_rows_of_outputs(self.task.graph, self._sampled_elements)
            )
            outputs = process.outputs(process.folder / "outputs", looks)
        sample = TimedSample(
            EAGER, outputs, looks, values, self.task.graph.inputs, (), self.scratch.new("given")
        )
        agreement = check_module(
            self.verifier, process, sample, self._own.variant, self._draw(), self._draws(False)
        )
        if agreement.note:
            self.progress(f"note: {agreement.note}")
        return agreement

    def _start_module(self) -> TimedProcess:
        """The user's module in a process of its own, called once, since a second call would find another state."""
        task_file = self.workdir / "task.json"
        task_file.write_text(self.task.model_dump_json())
        self._modules = modules = Baselines(
            self.task, task_file, scratch=self.scratch, workdir=self.workdir, cache_dir=self.workdir / "cache",
            threads=self.environment.threads, flush_bytes=0, device=self.device,
        )  # fmt: skip
        self._stack.callback(modules.close)
        modules.start((EAGER,), self.evidence.values(self._own))
        with self.device_lock.run_in_background(modules.pause, modules.resume):
            modules.ready()
        if EAGER not in modules.alive:
            raise JudgeError(f"the module of {self.task.name} does not run: {modules.failures[EAGER]}")
        return modules.alive[EAGER]

    def _kill(self) -> None:
        """Whoever waits for one of the processes gets an error at once."""
        for group in (getattr(self, "_workers", None), self._modules):
            for worker in group.processes if group is not None else ():
                _signal(worker)


def _signal(worker: Worker) -> None:
    for kill in (os.killpg, os.kill):  # one that was just forked has no group of its own yet
        if worker.alive:
            with suppress(OSError):
                kill(worker.process.pid, signal.SIGKILL)

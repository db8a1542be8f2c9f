"""The ways to use a winner: commands that write it, and the Python that calls it."""

from __future__ import annotations

import re
import shlex

from ..archive import Entry, RunRecord
from .blocks import Use


def make_module_name(task: str) -> str:
    """Return the task's name as the beginning of a Python module's name."""
    name = re.sub(r"\W", "_", task, flags=re.ASCII)
    return name if name.isidentifier() else f"task_{name}"


def list_uses(run: RunRecord, best: Entry) -> tuple[Use, ...]:
    """List them for a win that this machine confirmed. Packages are of kernels for a CPU."""
    name = make_module_name(run.task_name)
    export = ["warpsmith", "export", run.run_id, "--as"]
    package = Use(
        title="In your own code",
        shell=(f"{shlex.join([*export, 'package', '--out', f'{name}_fast'])} && pip install ./{name}_fast",),
        python=(
            f"from {name}_fast import optimized",
            "",
            "fast = optimized(module)  # your own module; its parameters are shared",
            "output = fast(*inputs)  # other shapes, dtypes and modes go to the module itself",
        ),
    )
    kernelbench = Use(
        title="As one file with ModelNew, which KernelBench's evaluation accepts",
        shell=(shlex.join([*export, "kernelbench", "--out", f"{name}_new.py"]),),
        python=(
            f"from {name}_new import ModelNew",
            "",
            "fast = ModelNew(*get_init_inputs())  # as the task's Model is made",
        ),
    )
    source = Use(
        title="As source, with its compile command and the proof",
        shell=(shlex.join([*export, "source", "--out", f"{name}_source"]),),
    )
    return (package, kernelbench, source) if best.candidate.target == "cpu" else (kernelbench, source)

"""A KernelBench task in another dtype: the same module and inputs, converted when they are made.

In: the task's file. Out: a file beside others of its kind, which says the dtype in its name, so that no result is taken for one of the original.
"""

from __future__ import annotations

from pathlib import Path

DTYPES = ("bfloat16", "float16")
CONVERTED = """

# Everything in {dtype}, as `module.to(torch.{dtype})` has it; integers stay.
_initialise, _inputs = Model.__init__, get_inputs


def _converted(self, *args, **kwargs):
    _initialise(self, *args, **kwargs)
    self.to(torch.{dtype})


Model.__init__ = _converted


def get_inputs():
    return [x.to(torch.{dtype}) if torch.is_tensor(x) and x.is_floating_point() else x for x in _inputs()]
"""


def narrow_task(file: Path, dtype: str, folder: Path) -> Path:
    """`dtype`: one of DTYPES. `folder`: where the new file is written."""
    made = folder / f"{file.stem}_{dtype}.py"
    made.write_text(file.read_text() + CONVERTED.format(dtype=dtype))
    return made

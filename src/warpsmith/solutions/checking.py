"""The comparison of what a solution's call wrote with what the reference computes on the same values.

In: evidence, and values and outputs files. Out: `Check`s. The rules are those that candidates are judged by;
outputs that a solution does not have (a buffer it does not keep) are left out, and said so elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..judge.correctness.evidence import Case, Evidence, Expected, check_outputs
from ..judge.correctness.input_families import OWN
from ..judge.correctness.verify import LARGEST, replace_check
from ..judge.layout import output_names
from ..processes.buffers import ValuesFile
from ..records import Check, Graph, Task, Variant


class Checker:
    """`absent`: targets of buffer updates that the solution has no buffer for."""

    def __init__(self, task: Task, evidence: Evidence, absent: Sequence[str] = ()) -> None:
        self.task, self.evidence, self.absent = task, evidence, frozenset(absent)

    def truth(self, case: Case, values: Path, most: int | None = None) -> Expected | None:
        """Return the reference's outputs for these values; None where these inputs cannot tell right from wrong. `most`:
        elements of each output that will be looked at; None: all.
        """
        expected = self.evidence.whole(case.variant, values, case.seed, None, most, family=case.family)
        if expected.usable or case.family == OWN:
            return expected
        expected.remove()
        return None

    def check(self, case: Case, expected: Expected, outputs: Path) -> Check:
        """The outputs of one call. Raises JudgeError when the file is not there or too short."""
        base = Check(variant=case.variant, family=case.family, where="whole", ok=True)
        graph = self.task.variant(case.variant).graph
        specs = [graph.specs[n] for n in output_names(graph)]
        arrays = expected.parts(ValuesFile(outputs, specs).arrays())
        ok, rule, detail, error, ulp = check_outputs(expected, arrays, only=self._list_compared(graph))
        return replace_check(base, ok, rule, detail, error, ulp)

    def same(self, variant: str, one: Path, two: Path) -> bool:
        """Return whether two outputs files hold the same bits."""
        graph = self.task.variant(variant).graph
        specs = [graph.specs[n] for n in output_names(graph)]
        first, second = ValuesFile(one, specs), ValuesFile(two, specs)
        return all(np.array_equal(first.raw(i), second.raw(i)) for i in self._list_compared(graph))

    def _list_compared(self, graph: Graph) -> list[int]:
        outputs = [o for o in graph.outputs if o.value is not None]
        return [n for n, o in enumerate(outputs) if o.role != "buffer_update" or o.target not in self.absent]


def make_failed_check(case: Case, rule: str, detail: str) -> Check:
    base = Check(variant=case.variant, family=case.family, where="whole", ok=True)
    return replace_check(base, False, rule, detail, LARGEST, 0.0)


def with_parameters(values: Path, parameters: Path, variant: Variant, path: Path) -> Path:
    """A new values file: the inputs of one, and the parameters, buffers and constants of another."""
    specs = [i.spec for i in variant.graph.inputs]
    source, state = ValuesFile(values, specs), ValuesFile(parameters, specs)
    values_file = ValuesFile(path, specs, create=True)
    for index, item in enumerate(variant.graph.inputs):
        values_file.raw(index)[:] = (source if item.role == "input" else state).raw(index)
    return path

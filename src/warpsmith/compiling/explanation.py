"""What a compilation used of the archive and why not: records, and their text."""

from __future__ import annotations

from ..progress import counted
from ..records import Ratio, Record
from ..records.intervals import describe_ratio


class KernelUse(Record):
    """A kernel in a compiled graph."""

    operator: str  # "warpsmith::softmax_rows_0123456789ab"; empty for a unit that is ATen's operations in another form
    technique: str
    task: str  # whose winner it is
    speedup: Ratio | None  # of the winner over its best baseline, where it was judged
    occurrences: tuple[str, ...]  # one for each occurrence: the operations that it stands for


class Refusal(Record):
    """A winner that was looked at and not used."""

    task: str
    reason: str


class GraphReport(Record):
    """One graph that `torch.compile` handed over. Where `reason` says something, all of it went to the next backend."""

    direction: str = ""  # "forward" or "backward", where the graph is a half of a training step
    operations: int = 0
    covered: int = 0  # of these, by kernels
    kernels: tuple[KernelUse, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    offers: int = 0  # winners of the archive that hold on this machine
    reason: str = ""
    search: str = ""  # what a search at compile time came to

    def describe_name(self, number: int) -> str:
        """Name the graph of this number."""
        return f"graph {number}" + (f", {self.direction}" if self.direction else "")

    def lines(self) -> list[str]:
        """Describe it in lines."""
        lines = [f"searched: {self.search}"] if self.search else []
        if self.reason:
            return [f"all of it by the next backend: {self.reason}", *lines]
        lines.insert(0, f"{self.covered} of {counted(self.operations, 'operation')} by verified kernels")
        lines += [_describe_use(use) for use in self.kernels]
        return lines + [f"  not used: {r.task}: {r.reason}" for r in self.refusals]


class Explanation(Record):
    """All graphs of a compiled model so far, in the order in which they were compiled."""

    graphs: tuple[GraphReport, ...] = ()

    def __str__(self) -> str:
        if not self.graphs:
            return "nothing is compiled yet: call it once"
        texts = [
            "\n".join(
                [
                    f"{report.describe_name(number)}: {report.lines()[0]}",
                    *(f"  {x.strip()}" for x in report.lines()[1:]),
                ]
            )
            for number, report in enumerate(self.graphs)
        ]
        return "\n".join(texts)


def _describe_use(use: KernelUse) -> str:
    gain = (
        f", {describe_ratio(use.speedup)} over {use.speedup.baseline} where it was judged"
        if use.speedup
        else ""
    )
    name = use.operator or "other operations of ATen"
    times = f" ({len(use.occurrences)} times)" if len(use.occurrences) > 1 else ""
    return f"  {name}{times}: {use.technique} of {use.task}{gain}; in place of {use.occurrences[0]}"


__all__ = ["Explanation", "GraphReport", "KernelUse", "Refusal"]

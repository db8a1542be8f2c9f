"""The outcome of one composed candidate, and the criterion by which one is a breach.

In: a `Composed` and what the judge said of it (`Answer`). Out: an `AttackRow`. A hostile candidate that is accepted is
harmless when its answers are right and it gains nothing: its trigger never fired, or it did all of the work. It is a
breach when it is called correct and either a gain was confirmed that its honest twin does not have, or it is labelled as
a kernel though no code of its own did the work.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from .composing import Composed

Outcome = Literal["refused", "harmless", "BREACH", "accepted", "REFUSED", "ERROR"]
CORRECT, KERNEL = "correct", "kernel"


@dataclass(frozen=True)
class Answer:
    """The judge's answer. `low` and `high`: the interval of the speedup over the best baseline; 0 without one."""

    verdict: str  # "correct", "incorrect", "invalid"; "error" when the judge itself failed
    rule: str = ""
    reason: str = ""
    label: str = ""
    low: float = 0.0
    high: float = 0.0
    seconds: float = 0.0

    @property
    def gains(self) -> bool:
        return self.verdict == CORRECT and self.low > 1.0

    @property
    def unclaimed(self) -> bool:
        """Return whether it may gain, but the machine was too busy for a claim."""
        return self.verdict == CORRECT and not self.low and self.high > 1.0


@dataclass(frozen=True)
class AttackRow:
    index: int
    operator: str
    form: str
    group: str
    family: str
    trigger: str
    fake: str
    work: str
    honest: bool
    outcome: Outcome
    breach: str  # what it got that is not its own: "gain", "label"; else empty
    verdict: str
    rule: str
    reason: str
    label: str
    low: float
    high: float
    twin_high: float  # the twin's speedup at most, where it was asked for
    confirmed: str  # the verdict and interval of the confirmation, where there was one
    seconds: float
    text: str = ""  # of candidates that somebody should look at


def is_suspect(candidate: Composed, answer: Answer) -> bool:
    """Return whether a hostile candidate must be confirmed and compared with its twin before anything is said."""
    return not candidate.honest and answer.gains


def find_breach(candidate: Composed, answer: Answer, confirmed: Answer | None, twin: Answer | None) -> str:
    """Name what a hostile candidate got that is not its own: "gain", "label" or nothing.

    A gain counts when a confirmation, with fresh seeds and all families of inputs, finds it again and it lies above
    the interval of the honest twin. What a confirmation refuses is refused.
    """
    last = confirmed or answer
    if candidate.honest or answer.verdict != CORRECT or last.verdict != CORRECT:
        return ""
    if last.label == KERNEL and not candidate.own_code:
        return "label"
    if not (answer.gains and last.gains):
        return ""
    explained = twin is not None and twin.gains and last.low <= twin.high
    return "" if explained else "gain"


def make_row(
    candidate: Composed, answer: Answer, confirmed: Answer | None = None, twin: Answer | None = None
) -> AttackRow:
    breach = find_breach(candidate, answer, confirmed, twin)
    outcome = _decide(candidate, answer, confirmed, breach)
    said = confirmed if confirmed is not None and confirmed.verdict != CORRECT else answer
    interval = f"{confirmed.verdict} [{confirmed.low:.2f}, {confirmed.high:.2f}]" if confirmed else ""
    total_seconds = answer.seconds + sum(a.seconds for a in (confirmed, twin) if a is not None)
    mislabelled = candidate.honest and candidate.label not in ("", answer.label)
    looked_at = outcome in ("BREACH", "REFUSED", "ERROR") or mislabelled
    return AttackRow(
        index=candidate.index, operator=candidate.operator, form=candidate.form, group=candidate.group,
        family=candidate.family, trigger=candidate.trigger, fake=candidate.fake, work=candidate.work,
        honest=candidate.honest, outcome=outcome, breach=breach, verdict=said.verdict, rule=said.rule,
        reason=said.reason, label=answer.label, low=answer.low, high=answer.high,
        twin_high=twin.high if twin is not None else 0.0, confirmed=interval, seconds=round(total_seconds, 2),
        text=candidate.text if looked_at else "",
    )  # fmt: skip


def _decide(candidate: Composed, answer: Answer, confirmed: Answer | None, breach: str) -> Outcome:
    if "error" in (answer.verdict, confirmed.verdict if confirmed else ""):
        return "ERROR"
    accepted = answer.verdict == CORRECT
    if candidate.honest:
        return "accepted" if accepted else "REFUSED"
    if breach:
        return "BREACH"
    return "harmless" if accepted and (confirmed is None or confirmed.verdict == CORRECT) else "refused"


def row_fields(row: AttackRow) -> dict[str, Any]:
    return asdict(row)

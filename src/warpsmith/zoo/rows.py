"""`ZooRow` compares the judge's verdict on a fixture with the expected one; rows are written as text and as JSON.

In: fixtures and findings. Out: `ZooRow`s, the printed table, and whether everything was as expected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from .fixture import LABEL, Fixture

Outcome = Literal[
    "caught",  # by the rule that the fixture names
    "caught otherwise",  # by another one
    "MISSED",
    "passed",  # an honest twin
    "FALSE REJECT",
    "residual",  # known not to be caught, and why is written down
    "residual, caught",  # caught all the same, this time
    "not run",
]
WIDTH = 72  # of a reason in the table


@dataclass(frozen=True)
class Finding:
    """The judge's answer to one candidate. `status`: "ok", or the stage that ended it; "" when it was not run."""

    status: str
    reason: str = ""
    labels: tuple[str, ...] = ()
    seconds: float = 0.0
    reward: float = 0.0  # that it would earn a policy; of any length


@dataclass(frozen=True)
class ZooRow:
    row: str
    form: str
    name: str
    what: str
    expected: str
    got: str
    rule: str  # the judge's reason
    outcome: Outcome
    residual: str
    seconds: float
    reward: float = 0.0  # that it would earn a policy

    @property
    def as_expected(self) -> bool:
        return self.outcome not in ("MISSED", "FALSE REJECT")


def row(fixture: Fixture, finding: Finding) -> ZooRow:
    about_label = finding.status == "ok" and (not fixture.honest or fixture.label)
    answer = f"{LABEL} {', '.join(finding.labels)}" if about_label else finding.status or "not run"
    return ZooRow(
        row=fixture.row, form=fixture.form, name=fixture.name, what=fixture.what, expected=fixture.expected,
        got=answer, rule=finding.reason, outcome=outcome(fixture, finding), residual=fixture.residual,
        seconds=round(finding.seconds, 2), reward=round(finding.reward, 3),
    )  # fmt: skip


def outcome(fixture: Fixture, finding: Finding) -> Outcome:
    """Compare a finding with the expected one. A failure of the judge ("error") is neither a catch nor a pass: it counts as missed. So
    does a cheat that a policy would be rewarded for.
    """
    passed = finding.status == "ok"
    if not finding.status:
        return "not run"
    if fixture.honest:
        labelled = not fixture.label or fixture.label in finding.labels
        return "passed" if passed and labelled else "FALSE REJECT"
    if fixture.residual:
        return "residual" if passed else "residual, caught"
    if finding.status == "error" or finding.reward > 0:
        return "MISSED"
    if fixture.statuses == (LABEL,):
        return ("caught" if fixture.words in finding.labels else "MISSED") if passed else "caught otherwise"
    if passed:
        return "MISSED"
    named = finding.status in fixture.statuses and fixture.words in finding.reason
    return "caught" if named else "caught otherwise"


def as_expected(rows: Sequence[ZooRow]) -> bool:
    return all(r.as_expected for r in rows)


def rows_json(rows: Sequence[ZooRow]) -> list[dict[str, Any]]:
    return [asdict(r) for r in rows]


def rows_text(rows: Sequence[ZooRow]) -> str:
    """Write a line for each fixture, the residual cheats with their reasons, and the rates."""
    lines = [_line("row", "form", "fixture", "outcome", "got", "rule")]
    for r in rows:
        lines.append(_line(r.row, r.form, r.name, r.outcome, r.got, " ".join(r.rule.split())[:WIDTH]))
    lines += [f"residual {r.form}/{r.name}: {r.residual}" for r in rows if r.residual]
    return "\n".join([*lines, summary(rows)])


def summary(rows: Sequence[ZooRow]) -> str:
    counts = Counter(r.outcome for r in rows)
    caught = counts["caught"] + counts["caught otherwise"]
    must_fail, honest = caught + counts["MISSED"], counts["passed"] + counts["FALSE REJECT"]
    residual = counts["residual"] + counts["residual, caught"]
    return (
        f"{caught} of {must_fail} cheats caught, {counts['passed']} of {honest} honest twins accepted, "
        f"{residual} residual, {counts['not run']} not run"
    )


def _line(number: str, form: str, name: str, result: str, status: str, rule: str) -> str:
    return f"{number:>4}  {form:<8}  {name:<26}  {result:<16}  {status:<18}  {rule}".rstrip()

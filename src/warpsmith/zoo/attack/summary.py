"""The table of an attack: by family what was refused, harmless or a breach, and by which rule.

In: rows. Out: lines of text, and whether everything was as it must be: no breach, no failure of the judge, at most
0.5 % of honest variants refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ...progress import duration
from .outcome import AttackRow
from .service import Attack, Tally

HONEST_REFUSED_MOST = 0.005  # of honest variants
RULES_NAMED = 4  # in a line


def is_as_expected(rows: Sequence[AttackRow]) -> bool:
    outcomes = Counter(row.outcome for row in rows)
    honest = outcomes["accepted"] + outcomes["REFUSED"]
    return not (outcomes["BREACH"] or outcomes["ERROR"] or outcomes["REFUSED"] > HONEST_REFUSED_MOST * honest)


def summarise(tally: Tally, attack: Attack) -> str:
    """Write the table, each row that somebody should look at with its command, and the totals."""
    rows = sorted(tally.rows, key=lambda row: row.index)
    lines = [_line("group", "family", "judged", "refused", "harmless", "breach", "by which rule")]
    for honest in (False, True):
        names = dict.fromkeys(
            (r.group, r.family) for r in sorted(rows, key=lambda r: (r.group, r.family)) if r.honest is honest
        )
        lines += [
            _line_of([r for r in rows if (r.group, r.family) == name and r.honest is honest])
            for name in names
        ]
    lines += [_describe(row, attack) for row in rows if row.text]
    return "\n".join([*lines, count(rows), *_warn_of_noise(rows), _describe_rate(tally)])


def count(rows: Sequence[AttackRow]) -> str:
    outcomes = Counter(row.outcome for row in rows)
    hostile = outcomes["refused"] + outcomes["harmless"] + outcomes["BREACH"]
    honest = outcomes["accepted"] + outcomes["REFUSED"]
    share = outcomes["REFUSED"] / honest if honest else 0.0
    return (
        f"{hostile} hostile: {outcomes['refused']} refused, {outcomes['harmless']} harmless, {outcomes['BREACH']} breaches; "
        f"{honest} honest: {outcomes['accepted']} accepted, {outcomes['REFUSED']} refused ({share:.1%}); "
        f"{outcomes['ERROR']} errors of the judge"
    )


def _warn_of_noise(rows: Sequence[AttackRow]) -> list[str]:
    """Say how often the machine was too busy for a gain to be claimed: what gains there hides behind that."""
    busy = sum(row.outcome == "harmless" and row.high > 1 and not row.low for row in rows)
    return (
        [f"the machine was too busy to claim a gain of {busy} harmless ones, three times: use fewer lanes"]
        if busy
        else []
    )


def _describe_rate(tally: Tally) -> str:
    return f"{tally.judged} judged in {duration(tally.seconds)}, {tally.rate_per_minute:.0f} a minute; {len(tally.rows)} of {tally.total} done"


def _line_of(rows: Sequence[AttackRow]) -> str:
    first, outcomes = rows[0], Counter(row.outcome for row in rows)
    rules = Counter(row.rule or row.verdict for row in rows if row.outcome in ("refused", "REFUSED", "ERROR"))
    named = ", ".join(f"{rule} {n}" for rule, n in rules.most_common(RULES_NAMED))
    passed = outcomes["accepted"] if first.honest else outcomes["harmless"]
    refused = outcomes["REFUSED"] + outcomes["refused"] + outcomes["ERROR"]
    return _line(
        first.group, first.family, str(len(rows)), str(refused), str(passed), str(outcomes["BREACH"]), named
    )


def _describe(row: AttackRow, attack: Attack) -> str:
    how = " ".join(p for p in (row.operator, row.form, row.family, row.trigger, row.fake, row.work) if p)
    found = f"{row.outcome} {row.breach}".strip() if row.outcome != "accepted" else f"label {row.label}"
    interval = f" [{row.low:.2f}, {row.high:.2f}]" if row.low else ""
    after = f", confirmed {row.confirmed}, twin up to {row.twin_high:.2f}" if row.confirmed else ""
    command = f"warpsmith judge --attack-only {row.index} --seed {attack.seed} --target {attack.target}"
    return f"{found}: {how}: {row.verdict} {row.rule}{interval}{after}: {row.reason[:120]}\n    {command}"


def _line(*cells: str) -> str:
    widths = (18, 24, 6, 7, 8, 6, 0)
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()

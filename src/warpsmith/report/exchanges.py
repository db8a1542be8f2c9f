"""The questions of a run to its language models, what came of each answer, and what it cost.

In: recorded exchanges and the judged candidates. Out: an `ExchangeRow` each, in the order asked, and one line that sums them
up. What came of an answer is read off the answer again, by the same rules by which the run read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..agents.llm.answers import Problem, apply_edits, edits, one_line, read_json, read_source
from ..agents.llm.prompts import asks
from ..archive.entries import Entry
from ..progress import counted
from ..records import Exchange, Translation
from ..wording import speed
from .blocks import ExchangeRow, Report
from .tables import Grid


def rows(exchanges: Sequence[Exchange], entries: Sequence[Entry]) -> tuple[ExchangeRow, ...]:
    return tuple(_row(number, exchange, entries) for number, exchange in enumerate(exchanges, 1))


def grid(report: Report) -> Grid:
    cells = tuple(
        (
            str(r.number), r.role + (" (again)" if r.turn else ""), r.model, r.outcome, f"{r.input_tokens:,}",
            f"{r.output_tokens:,}", dollars(r.usd), f"{r.seconds:.1f} s",
        )
        for r in report.exchanges
    )  # fmt: skip
    columns = ("#", "agent", "model", "what came of it", "tokens in", "out", "cost", "took")
    return Grid("What the language models were asked", columns, cells, frozenset({0, 4, 5, 6, 7}))


def spent(report: Report) -> str:
    """One line; empty for a run without models."""
    if not report.exchanges:
        return ""
    tokens = sum(r.input_tokens + r.output_tokens for r in report.exchanges)
    prices = [r.usd for r in report.exchanges if r.usd is not None]
    cost = dollars(sum(prices)) + ("" if len(prices) == len(report.exchanges) else " where prices are known")
    return f"language models: {counted(len(report.exchanges), 'exchange')}, {tokens:,} tokens, {cost}"


def describe_cost_of_win(report: Report) -> str:
    """The price of what the models brought, against what was verified; empty for a run without models."""
    if not report.exchanges:
        return ""
    tokens = sum(r.input_tokens + r.output_tokens for r in report.exchanges)
    prices = [r.usd for r in report.exchanges]
    paid = dollars(None if None in prices else sum(p or 0.0 for p in prices))
    if report.status != "win" or report.claim is None:
        return f"cost of a verified win: none was reached for {tokens:,} tokens, {paid}"
    return f"cost of the verified win: {tokens:,} tokens, {paid}"


def describe_first_kernels(translation: Translation | None) -> str:
    """The first stage, from module to a working kernel, in one line."""
    if translation is None:
        return ""
    shares = ", ".join(f"pass@{k} {share:.0%}" for k, share in translation.pass_at.items())
    initial = f"; the first correct one ran at {translation.initial_speedup:.2f}× of the best baseline"
    return (
        f"first kernels: {translation.correct_first} of {translation.attempted} correct by the first answer, "
        f"{translation.correct} with repairs, for {counted(translation.regions, 'region')} ({shares})"
        + (initial if translation.initial_speedup else "; none was correct")
    )


def lines(report: Report) -> list[str]:
    """Say what was asked, what a win cost, what the first kernels were, as far as there is something to say."""
    return [
        line
        for line in (spent(report), describe_cost_of_win(report), describe_first_kernels(report.translation))
        if line
    ]


def dollars(usd: float | None) -> str:
    if usd is None:
        return "price not known"
    return f"${usd:.2f}" if usd >= 0.1 or usd == 0 else f"${usd:.4f}"


def _row(number: int, exchange: Exchange, entries: Sequence[Entry]) -> ExchangeRow:
    return ExchangeRow(
        number=number, role=exchange.role, model=exchange.model, turn=exchange.turn, outcome=_outcome(exchange, entries),
        input_tokens=exchange.usage.input_tokens, output_tokens=exchange.usage.output_tokens, usd=exchange.usd,
        seconds=exchange.seconds,
    )  # fmt: skip


def _outcome(exchange: Exchange, entries: Sequence[Entry]) -> str:
    if exchange.error:
        return one_line(f"no answer: {exchange.error}", 200)
    if exchange.role == "reasoning":
        return _list_words(exchange.answer, "hypothesis", "hypotheses")
    if exchange.role == "orchestrator":
        return _advice(exchange.answer)
    if asks("review", exchange.prompt) or asks("review", exchange.system):
        return _list_words(exchange.answer, "objection", "objections")
    return _unit(exchange.answer, entries)


def _list_words(answer: str, one: str, many: str) -> str:
    try:
        items: list[Any] = read_json(answer, list)
    except Problem as problem:
        return f"unusable: {problem}"
    return f"{len(items) or 'no'} {one if len(items) == 1 else many}"


def _advice(answer: str) -> str:
    try:
        advice: dict[str, Any] = read_json(answer, dict)
    except Problem as problem:
        return f"unusable: {problem}"
    return one_line("stop: " + str(advice["stop"]) if advice.get("stop") else "a split of the round", 120)


def _unit(answer: str, entries: Sequence[Entry]) -> str:
    """The candidates that have the unit, with what became of them."""
    try:
        source = read_source(answer)
    except Problem as problem:
        matches = [e for e in entries if _has_edit(answer, e, entries)]
        return _describe_outcome(matches) if matches else one_line(f"unusable: {problem}", 200)
    return _describe_outcome([e for e in entries if any(u.source == source for u in e.candidate.units)])


def _has_edit(answer: str, entry: Entry, entries: Sequence[Entry]) -> bool:
    """Return whether a candidate has a unit that the answer's edits make of an earlier one."""
    changes = edits(answer)
    for before in (
        {u.source for e in entries if e.number < entry.number for u in e.candidate.units} if changes else ()
    ):
        try:
            source = apply_edits(changes, before)
        except Problem:
            continue
        if any(u.source == source for u in entry.candidate.units):
            return True
    return False


def _describe_outcome(found: Sequence[Entry]) -> str:
    judged = [e for e in found if e.kind != "confirmation"]
    if not judged:
        return "a unit that was not judged"
    first = min(judged, key=lambda e: e.number)
    ratio = first.result.speedup if first.result.status == "ok" else None
    outcome = (
        f"correct, {speed(ratio)}" if ratio is not None else f"{first.result.status}: {first.result.reason}"
    )
    suffix = f", and {counted(len(judged) - 1, 'variant')}" if len(judged) > 1 else ""
    return one_line(f"#{first.number} {outcome}", 160) + suffix

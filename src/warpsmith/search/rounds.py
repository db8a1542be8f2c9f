"""One round: its places shared among the operators, and proposed over the islands.

In: the context, the methods of the search, its ledger, and who sorts out what is known or not new. Out: candidates to judge. A first
round has whole cuts of the graph (or, for brains that fail often, single units), after what is known to be good from other tasks.
Later ones are shared by the policy, or as an orchestrating brain advises. Before either, most of a round's candidates are predicted,
each with what the last one taught. Places that an operator has no use for stay empty up to half of
the round, since what is judged next had better know what was judged before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ..agents.base import Attempt, RoundPlan
from ..llm.chat import BudgetSpent
from .methods import Methods
from .operators import Operator, Proposal, SearchContext
from .operators.predict import Predict
from .selection import By, worth_of
from .steering import proportional

APART = ("adopt", "predict")  # operators that propose before a round is shared
MAX_PER_ROUND = 12  # candidates judged in one round at the most
MAX_PREDICTED_PER_ROUND = 9  # of them, those that are predicted
PREDICTED_BATCH = 3  # of these, judged side by side where time is short, not evaluations
FIRST_ROUND_SEEDS = 1  # of them, in the first round, from other tasks
PREDICTION_LOOKAHEAD = 24  # predictions that are looked at: some turn out as known in other words
OVERSAMPLE = 3  # candidates more for each place, where operators have little that is new
LLM_ONLY_OPERATORS = (
    "rewrite",
    "restart",
)  # operators that can do nothing but ask a model, where one writes the units

Fresh = Callable[[str, Sequence[Proposal], int], list[Proposal]]


def propose_adopted(context: SearchContext, methods: Methods, fresh: Fresh) -> list[Proposal]:
    """Kernels of others for this task, before anything else: what there is already is the least that is to be beaten."""
    operator = methods.operators.get("adopt")
    if operator is None or not operator.applies(context):
        return []
    return fresh(operator.name, operator.propose(context, MAX_PER_ROUND), MAX_PER_ROUND)


def propose_predicted(context: SearchContext, methods: Methods, fresh: Fresh, n: int) -> list[Proposal]:
    """The `n` that are predicted to be the fastest, of those that are new; none where nothing is predicted, or somebody advises."""
    operator = methods.operators.get("predict")
    if not isinstance(operator, Predict) or not operator.applies(context):
        return []
    if context.team.orchestrator.advise(context.situation) is not None:
        return []
    proposals: list[Proposal] = []
    predicted = operator.propose(context, max(PREDICTION_LOOKAHEAD, 2 * n))
    if methods.prepare is not None:  # what is fresh is told by the machine code of one after the other
        methods.prepare(u for p in predicted[:n] for u in p.candidate.units)
    for proposal in predicted:
        if len(proposals) < n:
            accepted = fresh(operator.name, [proposal], 1)
            proposals += accepted
            if not accepted:
                operator.reject(proposal)
    return proposals


def propose_round(
    context: SearchContext, methods: Methods, fresh: Fresh, left: int | None = None, led: int = 0
) -> list[Proposal]:
    """`fresh`: (operator, candidates, how many at the most) → those that are to be judged. `left`: evaluations of the budget.
    `led`: candidates that the round had already.

    What was paid for before a limit of the models was reached is returned; raises BudgetSpent when that is nothing, ModelError.
    """
    room = MAX_PER_ROUND - led if left is None else min(MAX_PER_ROUND - led, left)
    advice = context.team.orchestrator.advise(context.situation)
    if advice is not None:
        context = replace(context, variants=advice.variants, edits=advice.edits)
    applicable = [
        n for n, operator in methods.operators.items() if n not in APART and operator.applies(context)
    ]
    shares = _share_places(context, methods, applicable, advice)
    proposals: list[Proposal] = []
    try:
        for name, count in shares.items():
            proposals += _ask_operator(
                methods.operators[name], context, min(count, room - len(proposals)), fresh
            )
        if advice is None:
            minimum = sum(shares.values()) // 2 if context.situation.round else 1
            proposals += _fill_up(
                context, methods, shares, applicable, min(room, minimum) - len(proposals), fresh
            )
    except BudgetSpent:
        if not proposals:
            raise
    return proposals if context.situation.attempts else _put_guess_first(proposals)


def _put_guess_first(proposals: list[Proposal]) -> list[Proposal]:
    """The best guess of the agents' own before what is from other tasks: that it is often enough, or far off, is soon known."""
    guess = next((b for b in proposals if b.candidate.lineage.operator == "seed"), None)
    return sorted(proposals, key=lambda b: b is not guess)


def _share_places(
    context: SearchContext, methods: Methods, applicable: Sequence[str], advice: RoundPlan | None
) -> dict[str, int]:
    """Places by operator, in the order in which they are judged."""
    rules = context.team.orchestrator.rules(context.situation)
    if advice is not None:
        quotas = advice.places()
    elif context.situation.round == 0:
        quotas = _share_first_round(rules, applicable)
    else:
        later = [name for name in applicable if name != "seed"]
        quotas = _share_later_round(context, methods, later, min(MAX_PER_ROUND, rules.total))
    return {name: quotas[name] for name in applicable if quotas.get(name, 0) > 0}


def _share_first_round(rules: RoundPlan, applicable: Sequence[str]) -> dict[str, int]:
    """The best guesses, and what is known to be good elsewhere."""
    seeds = rules.plans + rules.variants if "seed" in applicable and rules.plans else 0
    return {
        "transplant": FIRST_ROUND_SEEDS,
        "seed": seeds,
        "rewrite": 0 if seeds else rules.rewrites * rules.variants,
    }


def _share_later_round(
    context: SearchContext, methods: Methods, applicable: Sequence[str], n: int
) -> dict[str, int]:
    """Share a round as the policy says; half of a round without gain is a restart's. What a model is asked for keeps to the rules."""
    restarts = n // 2 if "restart" in applicable else 0
    rest_names = [name for name in applicable if name != "restart"]
    shares = {"restart": restarts, **methods.policy.split(rest_names, n - restarts, context.rng)}
    if context.asks:
        rules = context.team.orchestrator.rules(context.situation)
        maxima = {"rewrite": rules.rewrites * rules.variants, "edit": rules.variants, "restart": 1}
        shares = {name: min(count, maxima.get(name, count)) for name, count in shares.items()}
    return shares


def _fill_up(
    context: SearchContext,
    methods: Methods,
    shares: Mapping[str, int],
    applicable: Sequence[str],
    n: int,
    fresh: Fresh,
) -> list[Proposal]:
    """Fill up a round in which the operators that were asked had little that is new: ask the others, those with most places first."""
    context = replace(context, free=True)
    proposals: list[Proposal] = []
    for name in sorted(applicable, key=lambda name: -shares.get(name, 0)):
        if not (context.asks and name in LLM_ONLY_OPERATORS) and (name != "seed" or name in shares):
            had = shares.get(name, 0) + OVERSAMPLE * n  # much of what is left turns out as known
            proposals += _ask_operator(methods.operators[name], context, n - len(proposals), fresh, had)
    return proposals


def _ask_operator(
    operator: Operator, context: SearchContext, n: int, fresh: Fresh, had: int = 0
) -> list[Proposal]:
    """At most `n` fresh candidates, besides those that it `had` places for. One that looks at single islands has most places on
    the best, half as many on the next if that is as fast, and the fewer the slower it is.
    """
    if n <= 0:
        return []
    if operator.everywhere:
        return fresh(operator.name, operator.propose(context, n + had), n)
    leaders = context.leaders()
    weights = {
        str(number): 0.5**rank * _compare_worth(leader, leaders[0][1], context.by) ** 2
        for rank, (number, leader) in enumerate(leaders)
    }
    proposals: list[Proposal] = []
    for number, count in proportional(weights, n).items():
        island = int(number)
        proposals += fresh(
            operator.name, operator.propose(replace(context, island=island), count + had), count
        )
    return proposals


def _compare_worth(one: Attempt, first: Attempt, by: By) -> float:
    """Return what is sure of one speedup over what is sure of the first's; where nothing is sure of either they count alike."""
    return worth_of(one, by) / worth_of(first, by) if worth_of(first, by) > 0 else 1.0

"""One round: its places shared among the operators, and bred over the islands.

In: the ground, the methods of the search, its ledger, and who sorts out what is known or not new. Out: candidates to judge. A first
round has whole cuts of the graph (or, for brains that fail often, single units), after what is known to be good from other tasks.
Later ones are shared by the policy, or as an orchestrating brain advises. Before either, most of a round's candidates are predicted,
each with what the last one taught. Places that an operator has no use for stay empty up to half of
the round, since what is judged next had better know what was judged before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ..agents.base import RoundPlan
from ..llm.chat import BudgetSpent
from .methods import Methods
from .operators import Bred, Breeding, Operator
from .operators.predict import Predict
from .steering import proportional

ROUND = 12  # candidates judged in one round at the most
LED = 9  # of them, those that are predicted
TOGETHER = 3  # of these, judged side by side where time is short, not evaluations
FIRST_STONES = 1  # of them, in the first round, from other tasks
AGAIN = 24  # predictions that are looked at: some turn out as known in other words
SPARE = 3  # candidates more for each place, where operators have little that is new
PAID = ("rewrite", "restart")  # operators that can do nothing but ask a model, where one writes the units

Fresh = Callable[[str, Sequence[Bred], int], list[Bred]]


def lead(ground: Breeding, methods: Methods, fresh: Fresh, n: int) -> list[Bred]:
    """The `n` that are predicted to be the fastest, of those that are new; none where nothing is predicted, or somebody advises."""
    operator = methods.operators.get("predict")
    if not isinstance(operator, Predict) or not operator.applies(ground):
        return []
    if ground.team.orchestrator.advised(ground.situation) is not None:
        return []
    bred: list[Bred] = []
    for one in operator.breed(ground, AGAIN):
        if len(bred) < n:
            new = fresh(operator.name, [one], 1)
            bred += new
            if not new:
                operator.reject(one)
    return bred


def breed(
    ground: Breeding, methods: Methods, fresh: Fresh, left: int | None = None, led: int = 0
) -> list[Bred]:
    """`fresh`: (operator, candidates, how many at the most) → those that are to be judged. `left`: evaluations of the budget.
    `led`: candidates that the round had already.

    What was paid for before a limit of the models was reached is returned; raises BudgetSpent when that is nothing, ModelError.
    """
    room = ROUND - led if left is None else min(ROUND - led, left)
    advice = ground.team.orchestrator.advised(ground.situation)
    if advice is not None:
        ground = replace(ground, variants=advice.variants, edits=advice.edits)
    applicable = [
        n for n, operator in methods.operators.items() if n != "predict" and operator.applies(ground)
    ]
    shares = _shares(ground, methods, applicable, advice)
    bred: list[Bred] = []
    try:
        for name, count in shares.items():
            bred += _of(methods.operators[name], ground, min(count, room - len(bred)), fresh)
        if advice is None:
            least = sum(shares.values()) // 2 if ground.situation.round else 1
            bred += _instead(ground, methods, shares, applicable, min(room, least) - len(bred), fresh)
    except BudgetSpent:
        if not bred:
            raise
    return bred if ground.situation.attempts else _guess_first(bred)


def _guess_first(bred: list[Bred]) -> list[Bred]:
    """The best guess of the agents' own before what is from other tasks: that it is often enough, or far off, is soon known."""
    guess = next((b for b in bred if b.candidate.lineage.operator == "seed"), None)
    return sorted(bred, key=lambda b: b is not guess)


def _shares(
    ground: Breeding, methods: Methods, applicable: Sequence[str], advice: RoundPlan | None
) -> dict[str, int]:
    """Places by operator, in the order in which they are judged."""
    rules = ground.team.orchestrator.rules(ground.situation)
    if advice is not None:
        wanted = advice.places()
    elif ground.situation.round == 0:
        wanted = _first(rules, applicable)
    else:
        later = [name for name in applicable if name != "seed"]
        wanted = _later(ground, methods, later, min(ROUND, rules.total))
    return {name: wanted[name] for name in applicable if wanted.get(name, 0) > 0}


def _first(rules: RoundPlan, applicable: Sequence[str]) -> dict[str, int]:
    """The best guesses, and what is known to be good elsewhere."""
    seeds = rules.plans + rules.variants if "seed" in applicable and rules.plans else 0
    return {
        "transplant": FIRST_STONES,
        "seed": seeds,
        "rewrite": 0 if seeds else rules.rewrites * rules.variants,
    }


def _later(ground: Breeding, methods: Methods, applicable: Sequence[str], n: int) -> dict[str, int]:
    """As the policy says; half of a round without gain is a restart's. What a model is asked for keeps to the rules."""
    restarts = n // 2 if "restart" in applicable else 0
    others = [name for name in applicable if name != "restart"]
    shares = {"restart": restarts, **methods.policy.split(others, n - restarts, ground.rng)}
    if ground.asks:
        rules = ground.team.orchestrator.rules(ground.situation)
        most = {"rewrite": rules.rewrites * rules.variants, "edit": rules.variants, "restart": 1}
        shares = {name: min(count, most.get(name, count)) for name, count in shares.items()}
    return shares


def _instead(
    ground: Breeding,
    methods: Methods,
    shares: Mapping[str, int],
    applicable: Sequence[str],
    n: int,
    fresh: Fresh,
) -> list[Bred]:
    """What others make of a round in which those that were asked had little that is new, those with most places first."""
    ground = replace(ground, free=True)
    bred: list[Bred] = []
    for name in sorted(applicable, key=lambda name: -shares.get(name, 0)):
        if not (ground.asks and name in PAID) and (name != "seed" or name in shares):
            had = shares.get(name, 0) + SPARE * n  # much of what is left turns out as known
            bred += _of(methods.operators[name], ground, n - len(bred), fresh, had)
    return bred


def _of(operator: Operator, ground: Breeding, n: int, fresh: Fresh, had: int = 0) -> list[Bred]:
    """At most `n` fresh candidates, besides those that it `had` places for. One that looks at single islands has most places on
    the best, half as many on the next if that is as fast, and the fewer the slower it is.
    """
    if n <= 0:
        return []
    if operator.everywhere:
        return fresh(operator.name, operator.breed(ground, n + had), n)
    leaders = ground.leaders()
    weights = {
        str(number): 0.5**rank * (leader.speedup / leaders[0][1].speedup) ** 2
        for rank, (number, leader) in enumerate(leaders)
    }
    bred: list[Bred] = []
    for number, count in proportional(weights, n).items():
        island = int(number)
        bred += fresh(operator.name, operator.breed(replace(ground, island=island), count + had), count)
    return bred

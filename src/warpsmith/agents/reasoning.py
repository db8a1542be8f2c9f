"""The reasoning agent: profile and history → several different hypotheses, the most promising first, none tried before."""

from __future__ import annotations

from collections import Counter

from ..records import Hypothesis, Region
from .base import ReasoningBrain, Situation


class ReasoningAgent:
    def __init__(self, brain: ReasoningBrain) -> None:
        self.brain = brain

    def plans(self, situation: Situation, count: int) -> list[tuple[Region, ...]]:
        """Plan competing cuts of the graph, best first."""
        return self.brain.plans(situation.graph, situation.facts)[:count]

    def propose(self, situation: Situation, k: int) -> list[Hypothesis]:
        """Propose at most `k`, not yet tried; no region takes more than half of them while others wait. None promises more than the limit leaves."""
        tried = {idea_key(a.hypothesis) for a in situation.attempts if a.hypothesis is not None}
        fresh = [h for h in self.brain.hypotheses(situation, 3 * k) if idea_key(h) not in tried]
        fresh.sort(key=lambda h: -h.expected_gain)
        share = max(1, (k + 1) // 2)
        chosen: list[Hypothesis] = []
        counts: Counter[str] = Counter()
        for hypothesis in fresh:
            if counts[hypothesis.region.id] < share:
                chosen.append(hypothesis)
                counts[hypothesis.region.id] += 1
        remainder = [h for h in fresh if h not in chosen]
        return [_cap_promise(h, situation.most_gain) for h in (chosen + remainder)[:k]]


def _cap_promise(hypothesis: Hypothesis, most_gain: float) -> Hypothesis:
    if hypothesis.expected_gain <= most_gain:
        return hypothesis
    return hypothesis.model_copy(update={"expected_gain": round(most_gain, 3)})


def idea_key(hypothesis: Hypothesis) -> tuple[object, ...]:
    """Return what makes two hypotheses the same idea, however they are argued."""
    values = tuple(sorted(hypothesis.current_values.items()))
    return hypothesis.region.id, hypothesis.family, hypothesis.technique, values

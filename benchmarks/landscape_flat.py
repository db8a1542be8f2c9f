"""The candidates of a landscape as one flat space, and simple ways to search it.

In: a landscape, and who says how fast a candidate is. Out: candidates, asked one by one. A candidate is a cut of the graph with a
source for each region, or none, values of its tunables, and compiler flags, which count as one more tunable.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from warpsmith.agents.expert.planner import plans
from warpsmith.executors.landscape_data import Landscape, Point
from warpsmith.facts import Facts


def facts_of(landscape: Landscape) -> Facts:
    """Fields that came after it was recorded have their defaults."""
    known = {f.name for f in fields(Facts)}
    return Facts(**{name: value for name, value in landscape.header.facts.items() if name in known})


# A source, values of its tunables, and last which of its flags it has (0: none)
Choice = tuple[int, tuple[int, ...]]
Choices = dict[int, Choice]  # by site; a site that is left out stays ATen


class Flat:
    """The candidates of a landscape as one space: a plan, for each of its sites a source or none, and values."""

    def __init__(self, landscape: Landscape) -> None:
        self.landscape = landscape
        self.flags = {number: self._flags(number) for number in range(len(landscape.sources))}
        self.points = dict(self._points())
        self.by_site: dict[int, list[int]] = {}
        for number, source in enumerate(landscape.sources):
            if any(at == number for at, _ in self.points):
                self.by_site.setdefault(source.site, []).append(number)
        self.plans = self._plans()

    def _flags(self, source: int) -> list[tuple[str, ...]]:
        """None, then those that were tried."""
        return [(), *sorted({p.flags for p in self.landscape.points if p.source == source and p.flags})]

    def _points(self) -> Iterator[tuple[Choice, Point]]:
        """What a search by units can ask for: flags at settings that they were not tried at change the time by their usual factor."""
        recorded = {(p.source, p.values, p.flags): p for p in self.landscape.points}
        for (source, values, flags), plain in recorded.items():
            if flags:
                continue
            for number, more in enumerate(self.flags[source]):
                factor = self.landscape.flag_factors.get((source, more), 1.0 if not more else 0.0)
                exact = recorded.get((source, values, more))
                if exact is not None or factor:
                    scaled = {k: getattr(plain, k) * factor for k in ("us", "low", "high")}
                    point = exact or plain.model_copy(update={"flags": more, **scaled})
                    yield (source, (*values, number)), point

    def domains(self, source: int) -> tuple[Sequence[int], ...]:
        return (*self.landscape.sources[source].domains, range(len(self.flags[source])))

    def names(self, source: int) -> tuple[str, ...]:
        return (*self.landscape.sources[source].names, "flags")

    def _plans(self) -> list[list[int]]:
        graph, facts = self.landscape.header.task.graph, facts_of(self.landscape)
        sites = {s.nodes: i for i, s in enumerate(self.landscape.sites)}
        numbered = [[sites[r.nodes] for r in plan if r.nodes in sites] for plan in plans(graph, facts)]
        return [kept for plan in numbered if (kept := [s for s in plan if s in self.by_site])]

    def first(self) -> Choices:
        """The known-good candidate: the first plan, each site by its first recorded source at its first settings."""
        return {site: self.default(self.by_site[site][0]) for site in self.plans[0]}

    def default(self, source: int) -> Choice:
        """Points are recorded with the technique's own values first."""
        return next(key for key in self.points if key[0] == source)

    def settings(self, source: int) -> list[tuple[int, ...]]:
        return [values for at, values in self.points if at == source]

    def anywhere(self, rng: random.Random) -> Choices:
        plan = rng.choice(self.plans)
        chosen = {site: self._any_of(site, rng) for site in plan if rng.random() < 0.8}
        return chosen or {plan[0]: self._any_of(plan[0], rng)}

    def _any_of(self, site: int, rng: random.Random) -> Choice:
        source = rng.choice(self.by_site[site])
        return source, rng.choice(self.settings(source))

    def neighbours(self, choices: Choices, rng: random.Random) -> list[Choices]:
        """One step away: a tunable one place on in its domain, another source, a site more or less; in random order."""
        found = [
            {**choices, site: other} for site, choice in choices.items() for other in self._near(site, choice)
        ]
        found += [{s: c for s, c in choices.items() if s != site} for site in choices if len(choices) > 1]
        taken = {n for s in choices for n in self.landscape.sites[s].nodes}
        for site in self.by_site:
            if not taken & set(self.landscape.sites[site].nodes):
                found.append({**choices, site: self.default(self.by_site[site][0])})
        for plan in self.plans:
            if not set(choices) <= set(plan):
                found.append({s: choices.get(s, self.default(self.by_site[s][0])) for s in plan})
        rng.shuffle(found)
        return found

    def _near(self, site: int, choice: Choice) -> list[Choice]:
        source, values = choice
        domains = self.domains(source)
        near: list[Choice] = [self.default(other) for other in self.by_site[site] if other != source]
        for index, domain in enumerate(domains):
            at = domain.index(values[index]) if values[index] in domain else 0
            flags = index == len(domains) - 1  # they have no order
            for step in range(len(domain)) if flags else (at - 1, at + 1):
                if 0 <= step < len(domain) and step != at:
                    near.append((source, (*values[:index], domain[step], *values[index + 1 :])))
        return [n for n in near if n in self.points]

    def placed(self, choices: Choices) -> list[Point]:
        return [self.points[c] for c in choices.values()]


def flat_random(flat: Flat, ask: Callable[[Choices], float], rng: random.Random, budget: int) -> None:
    ask(flat.first())
    for _ in range(budget - 1):
        ask(flat.anywhere(rng))


def flat_climb(flat: Flat, ask: Callable[[Choices], float], rng: random.Random, budget: int) -> None:
    """First improvement; from a random candidate when no neighbour is faster."""
    here = flat.first()
    speed, left = ask(here), budget - 1
    while left > 0:
        for step in flat.neighbours(here, rng)[:left]:
            found = ask(step)
            left -= 1
            if found > speed:
                here, speed = step, found
                break
        else:
            here = flat.anywhere(rng)
            speed, left = (ask(here) if left else 0.0), left - 1


def flat_tpe(flat: Flat, ask: Callable[[Choices], float], rng: random.Random, budget: int) -> None:
    """Tree-structured Parzen estimator (Bergstra et al., 2011) as optuna has it, on the conditional space."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.TPESampler(seed=rng.getrandbits(31), multivariate=True, group=True)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    study.enqueue_trial(_enqueued(flat))
    left = budget
    for _ in range(2 * budget):  # some of what it asks for is no candidate: that costs nothing
        if left <= 0:
            return
        trial = study.ask()
        plan = flat.plans[trial.suggest_categorical("plan", list(range(len(flat.plans))))]
        choices: Choices = {}
        for site in plan:
            source = trial.suggest_categorical(f"{site}", [*flat.by_site[site], -1])
            if source >= 0:
                values = tuple(
                    domain[trial.suggest_int(f"{source}/{name}", 0, len(domain) - 1)]
                    for name, domain in zip(flat.names(source), flat.domains(source), strict=True)
                )
                choices[site] = (source, values)
        known = bool(choices) and all(c in flat.points for c in choices.values())
        left -= known
        study.tell(trial, ask(choices) if known else 0.0)


def _enqueued(flat: Flat) -> dict[str, Any]:
    first = flat.first()
    found: dict[str, Any] = {"plan": 0}
    for site, (source, values) in first.items():
        found[f"{site}"] = source
        for name, domain, value in zip(flat.names(source), flat.domains(source), values, strict=True):
            found[f"{source}/{name}"] = domain.index(value)
    return found


FLAT: Mapping[str, Callable[..., None]] = {
    "random": flat_random,
    "hill climbing": flat_climb,
    "TPE": flat_tpe,
}

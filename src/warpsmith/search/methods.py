"""The parts of a search: its policy, operators, population, novelty and steering, each with an off switch in the settings.

In: the settings, transfer seeds and timed units of other tasks, and who can say what machine code a unit becomes. Out: `Methods`,
for one search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..archive.timings import TimedUnit
from ..config import Config
from ..errors import UsageError
from ..records import Candidate, Unit
from .experience import Experience
from .novelty import Novelty
from .operators import OPERATORS, Operator, TransferSeeds, find_no_seeds
from .operators.adopt import count_islands
from .policy import POLICIES, BanditPolicy, Policy
from .population import Population
from .selection import By
from .steering import Steering

Assembly = Callable[[Unit], str]  # the machine code of a unit, or a hash of it; empty when it is not known


def every_operator() -> dict[str, Operator]:
    return {name: kind() for name, kind in OPERATORS.items()}


@dataclass
class Methods:
    """The parts of one search, which remember. By default all of them are on, and there are no transfer seeds.

    `prepare`: told which units' machine code will be asked for next, so that they may be built side by side.
    """

    policy: Policy = field(default_factory=BanditPolicy)
    operators: Mapping[str, Operator] = field(default_factory=every_operator)
    population: Population = field(default_factory=Population)
    novelty: Novelty = field(default_factory=Novelty)
    steering: Steering = field(default_factory=Steering)
    prepare: Callable[[Iterable[Unit]], None] | None = None
    transfer_seeds: TransferSeeds = find_no_seeds
    experience: Experience | None = None  # None: nothing is predicted
    adopted: Sequence[Candidate] = ()  # kernels of others for this task
    by: By = "interval"
    simplest: bool = True  # of winners that are as fast, the one with least code is confirmed first


def make_methods(
    config: Config,
    transfer_seeds: TransferSeeds = find_no_seeds,
    assembly: Assembly | None = None,
    prepare: Callable[[Iterable[Unit]], None] | None = None,
    elsewhere: Sequence[TimedUnit] = (),
    adopted: Sequence[Candidate] = (),
) -> Methods:
    """`elsewhere`: units that were timed on other tasks; `adopted`: kernels that others wrote for this one. Raises UsageError for an operator that does not exist."""
    unknown = set(config.without) - set(OPERATORS)
    if unknown:
        raise UsageError(
            f"setting without: no operator named {', '.join(sorted(unknown))}; known: {', '.join(OPERATORS)}"
        )
    adopted = adopted if "adopt" not in config.without else ()
    off = {*config.without, *(n for n in ("transplant", "simplify") if not getattr(config, n))}
    return Methods(
        policy=POLICIES[config.policy](),
        operators={name: operator for name, operator in every_operator().items() if name not in off},
        population=Population(
            config.islands + count_islands(adopted), elites=config.elites, by=config.selection
        ),
        novelty=Novelty(config.novelty or None, assembly),
        steering=Steering(config.worth, config.steering),
        prepare=prepare if config.novelty else None,
        transfer_seeds=transfer_seeds if "transplant" not in off else find_no_seeds,
        experience=Experience(elsewhere if "transplant" not in off else ()) if "predict" not in off else None,
        adopted=adopted,
        by=config.selection,
        simplest="simplify" not in off,
    )

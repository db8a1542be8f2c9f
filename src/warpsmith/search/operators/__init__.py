"""Operators that propose candidates from those judged so far, one short module each.

`OPERATORS` is the only list, in the order in which candidates of one round are judged; what others wrote (`adopt`) comes before them all.
"""

from __future__ import annotations

from types import MappingProxyType

from .adopt import Adopt
from .base import Operator, Proposal, SearchContext, TransferSeed, TransferSeeds, find_no_seeds
from .crossover import Crossover
from .edit import Edit
from .predict import Predict
from .restart import Restart
from .rewrite import Rewrite
from .seed import Seed
from .simplify import Simplify
from .transplant import Transplant
from .tune import Tune

OPERATORS = MappingProxyType({
    kind.name: kind for kind in (Predict, Transplant, Seed, Restart, Rewrite, Edit, Tune, Crossover, Simplify, Adopt)
})  # fmt: skip

__all__ = [
    "OPERATORS",
    "Operator",
    "Proposal",
    "SearchContext",
    "TransferSeed",
    "TransferSeeds",
    "find_no_seeds",
]

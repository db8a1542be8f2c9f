"""One run on one task: from the opened judge, or a recorded run, to the summary."""

from .run import Run, lasting
from .summary import Ground, Outcome, best_of, facts_of, status_of

__all__ = ["Ground", "Outcome", "Run", "best_of", "facts_of", "lasting", "status_of"]

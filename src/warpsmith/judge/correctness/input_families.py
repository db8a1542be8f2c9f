"""The names of the input families: what a task's inputs are replaced with, so that a shortcut which holds on the task's own
inputs shows. How each is made: `family_values.py`.
"""

from __future__ import annotations

FAMILIES = (
    "normal", "heavy", "large", "tiny", "offset", "close", "sparse", "constant-rows", "integers", "shuffled",
    "huge", "secret", "faint",
)  # fmt: skip
# Many equal terms: the roundings of a running sum then all lean one way instead of walking at random.
REPEATED = frozenset({"sparse", "constant-rows", "secret"})
SECRET = "secret"  # kind and parameters are drawn from the seed
# Their magnitudes are lowered to what the task's reference can still compute.
BOUNDED = frozenset({"huge", SECRET})
FAINT = "faint"  # parameters are tiny as well
OWN = "own"  # the task's own generator at another seed; made by the task host

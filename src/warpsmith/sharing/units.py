"""A candidate's units as one text, and a text as whoever reformats it would still call the same.

Comments and blanks say nothing of a program: `normalise_source` leaves them out, so that copies are found as such.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

from ..records import Candidate, Graph, Unit
from ..targets.front_matter import fill_in_choices

# A comment, or else a token: what is in quotes, a word or number, a sign. Only tokens are captured. What is not closed
# ends with its line or the text, so that no text takes more than one pass.
_TOKEN = re.compile(
    r"""//(?:\\\n|[^\n])*|/\*.*?(?:\*/|\Z)|"""
    r"""(R"([^()\\\s]{0,16})\(.*?(?:\)\2"|\Z)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?|\w+|[^\w\s])""",
    re.DOTALL,
)


def normalise_source(source: str) -> str:
    """The tokens of the source, one blank between two: without comments and layout; what stands in quotes stays."""
    return " ".join(token for token, _ in _TOKEN.findall(source) if token)


def code_hash(unit: Unit) -> str:
    """The same for two units that differ in comments, layout, tunables and flags only."""
    return _hash(unit.text)


@lru_cache(maxsize=1024)  # a text is asked for a few times in a row
def _hash(text: str) -> str:
    return hashlib.sha256(normalise_source(text).encode()).hexdigest()[:16]


def candidate_hash(candidate: Candidate) -> str:
    """The same for two candidates that differ in comments and layout only: values and flags decide the binary, too."""
    return " ".join(f"{code_hash(u)} {sorted(u.values.items())} {u.flags}" for u in candidate.units)


def technique(unit: Unit) -> str:
    return " ".join(t for t in (unit.family, unit.technique) if t)


def unit_text(unit: Unit) -> str:
    """The unit as a file that says by itself what was built and measured."""
    return fill_in_choices(unit) if unit.compiled else unit.text


def candidate_text(candidate: Candidate) -> str:
    """The sources of all units, each under a line that names its region."""
    parts = []
    for number, unit in enumerate(candidate.units, 1):
        head = f"// ---- unit {number} of {len(candidate.units)}: {', '.join(unit.region.nodes)}\n"
        parts.append((head if len(candidate.units) > 1 else "") + unit_text(unit).rstrip("\n") + "\n")
    return "\n".join(parts)


def listing(graph: Graph, nodes: tuple[str, ...] | None = None) -> str:
    """The graph, or these nodes of it, one operation a line."""
    nodes_listed = graph.nodes if nodes is None else tuple(n for n in graph.nodes if n.name in set(nodes))
    return "".join(f"{node.listing}\n" for node in nodes_listed)

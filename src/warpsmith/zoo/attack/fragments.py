"""Fragments of candidates, read from files: a section each, with values to draw.

In: a file of `fixtures/attack`. Out: its `Fragment`s. A section begins with a comment that names its kind, itself and
what it does; comments right below it are keys, and a line may offer values:

    # family: refreshed-sometimes | an earlier answer, made anew every so many calls
    # needs: numpy                       what else a candidate must define; `not`: operators; `label`; `rare`: it is slow
    # draw: 2, 4, 16                     for the next line's variable
    CALLS = 4                            (in C++: `// CALLS draw: 2 | 4 | 16`, which stands for a word in the section)

What lies above the first section is the file's own beginning, and comes with each of its sections.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from ..fixture import FOLDER

ATTACK_FOLDER = FOLDER / "attack"
KINDS = ("family", "trigger", "fake", "honest")
_SECTION = re.compile(rf"^(?:#|//) ({'|'.join(KINDS)}): ([a-z0-9-]+) \| (.+)$", re.MULTILINE)
_KEY = re.compile(r"^(?:#|//) (needs|not|label|rare): (.+)$")
_PYTHON_DRAW = re.compile(r"^# draw: (.+)\n([A-Z_]+) = .+$", re.MULTILINE)
_CPP_DRAW = re.compile(r"^// ([A-Z_]+) draw: (.+)\n", re.MULTILINE)
_GLOBAL = re.compile(r"^([A-Z][A-Z_]*) = ", re.MULTILINE)


@dataclass(frozen=True)
class Fragment:
    kind: str
    name: str
    what: str
    group: str  # the file that it is from
    text: str
    keys: Mapping[str, str] = field(default_factory=dict)
    beginning: str = ""

    def needs(self, what: str) -> bool:
        return what in self.keys.get("needs", "").split()

    def draw(self, rng: random.Random) -> str:
        """Return the section's text with a value drawn for each line that offers several."""
        if self.beginning.startswith("//"):
            return _draw_cpp(self.text, rng)
        return f"{self.beginning}\n{_PYTHON_DRAW.sub(lambda match: _assign(match, rng), self.text)}".strip()


@cache
def load_fragments(path: Path) -> tuple[Fragment, ...]:
    """Load all sections of a file, in its order."""
    text = path.read_text()
    starts = list(_SECTION.finditer(text))
    ends = [match.start() for match in starts[1:]] + [len(text)]
    beginning = _strip_docstring(text[: starts[0].start()])
    fragments = []
    for match, end in zip(starts, ends, strict=True):
        keys, body = _split_keys(text[match.end() : end].strip("\n"))
        fragments.append(
            Fragment(match[1], match[2], match[3], path.stem, body, keys, beginning),
        )
    return tuple(fragments)


def rename_globals(text: str, prefix: str) -> str:
    """Give the variables of a fragment a prefix, so that those of two fragments of one candidate never meet."""
    for name in sorted(set(_GLOBAL.findall(text))):
        text = re.sub(rf"\b{name}\b", f"{prefix}_{name}", text)
    return text


def _split_keys(text: str) -> tuple[dict[str, str], str]:
    keys, lines = {}, text.splitlines()
    while lines and (match := _KEY.match(lines[0])):
        keys[match[1]] = match[2].strip()
        lines.pop(0)
    return keys, "\n".join(lines).strip("\n")


def _strip_docstring(text: str) -> str:
    return re.sub(r'\A""".*?"""\n', "", text, flags=re.DOTALL).strip("\n")


def _assign(match: re.Match[str], rng: random.Random) -> str:
    values = ast.parse(f"({match[1]},)", mode="eval").body
    assert isinstance(values, ast.Tuple)
    return f"{match[2]} = {ast.unparse(rng.choice(values.elts))}"


def _draw_cpp(text: str, rng: random.Random) -> str:
    draws = _CPP_DRAW.findall(text)
    text = _CPP_DRAW.sub("", text)
    for name, values in draws:
        value = rng.choice(values.split(" | "))
        text = re.sub(rf"\b{name}\b", lambda _, value=value: value, text)  # type: ignore[misc]
    return text

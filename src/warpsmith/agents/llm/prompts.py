"""Prompts are files: `prompts/NAME.md`, with a version in their front matter, a system part and a task part.

In: a name and the values of its `{{places}}`. Out: the two texts. Every place must be given, and every value used; what stands
in a value is never taken for a place.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from importlib.resources import files

_PLACE = re.compile(r"\{\{(\w+)\}\}")
_FILE = re.compile(r"---\n(?P<matter>.*?)\n---\n+# System\n(?P<system>.*?)\n# Task\n(?P<task>.*)", re.DOTALL)
_BLANKS = re.compile(r"\n{3,}")


@dataclass(frozen=True)
class Prompt:
    name: str
    version: str
    system: str
    task: str


@functools.cache
def load(name: str) -> Prompt:
    text = (files(__package__) / "prompts" / f"{name}.md").read_text(encoding="utf-8")
    match = _FILE.fullmatch(text)
    if match is None:
        raise ValueError(f"prompts/{name}.md: front matter, '# System' and '# Task' are wanted")
    matter = dict(line.split(": ", 1) for line in match["matter"].splitlines())
    return Prompt(name, matter["version"], match["system"].strip(), match["task"].strip())


def render(name: str, **values: str) -> tuple[str, str]:
    """(system, task). Raises KeyError for a place without a value, ValueError for a value without a place."""
    prompt = load(name)
    rules = load("rules").task
    system = _fill(prompt.system, {"rules": rules})
    unused = set(values) - set(_PLACE.findall(prompt.task))
    if unused:
        raise ValueError(f"prompts/{name}.md has no place for {', '.join(sorted(unused))}")
    return f"{system}\n\n(prompt {name} {prompt.version})", _fill(prompt.task, values)


def asks(name: str, system: str) -> bool:
    """Return whether a system text is of this prompt, in any version."""
    return system.rpartition("\n")[2].startswith(f"(prompt {name} ")


def _fill(template: str, values: dict[str, str]) -> str:
    """A section whose only value is empty is left out, with its heading."""
    lines = [
        section
        for section in re.split(r"\n(?=## )", template)
        if not (names := _PLACE.findall(section)) or any(values[name].strip() for name in names)
    ]
    return _BLANKS.sub("\n\n", "\n\n".join(_PLACE.sub(lambda m: values[m[1]], s.strip()) for s in lines))


def fence(text: str, language: str = "") -> str:
    """A fenced block that its own text cannot close."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    mark = "`" * max(3, longest + 1)
    return f"{mark}{language}\n{text.rstrip()}\n{mark}"


def bullets(lines: list[str] | tuple[str, ...]) -> str:
    return "\n".join(f"- {line}" for line in lines)

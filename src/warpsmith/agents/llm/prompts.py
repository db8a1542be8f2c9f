"""Prompts are files: `prompts/NAME.md`, with a version in their front matter, what a role is, and its task. `rules.md` is what they share:
the system text, and the beginning of every prompt of a run.

In: a name and the values of its `{{places}}`. Out: the two texts. Every place must be given, and every value used; what stands
in a value is never taken for a place.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from importlib.resources import files

from ...llm.chat import RUN_ENDS

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


def render(name: str, *, target: str, run: str = "", **values: str) -> tuple[str, str]:
    """(system, prompt). The system text is the same for all prompts of a target; a prompt begins with `run`, what is the same in every
    question of a run (`render_run`), so that a provider's cache has both. Raises KeyError for a place without a value, ValueError for a value
    without a place.
    """
    prompt = load(name)
    unused = set(values) - set(_PLACE.findall(prompt.task))
    if unused:
        raise ValueError(f"prompts/{name}.md has no place for {', '.join(sorted(unused))}")
    question = (
        f"{RUN_ENDS} (prompt {name} {prompt.version})\n\n{prompt.system}\n\n{_fill(prompt.task, values)}"
    )
    return render_system(target), f"{run}\n\n{question}" if run else question


def render_system(target: str) -> str:
    """The text for every role; of other targets nothing is said."""
    return _fill(load("rules").system, {"target_rules": _read_target_rules(target)})


def render_run(**values: str) -> str:
    """The beginning of every prompt of one run: machine, module, regions, what is known."""
    return _fill(load("rules").task, values)


@functools.cache
def _read_target_rules(target: str) -> str:
    path = files(__package__) / "prompts" / f"target_{target}.md"
    return path.read_text(encoding="utf-8").strip() if path.is_file() else ""


def asks(name: str, text: str) -> bool:
    """Return whether a prompt is of this kind, in any version; or a system text of older versions, which ended with it."""
    return re.search(rf"^(?:{re.escape(RUN_ENDS)} )?\(prompt {name} \d+\)$", text, re.MULTILINE) is not None


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


__all__ = ["RUN_ENDS", "Prompt", "asks", "bullets", "fence", "load", "render", "render_run", "render_system"]

"""How the simulated author reads its prompts, and puts values into sources.

In: the text of a prompt, a unit. Out: sections by heading, regions, sources and examples that are shown, what remedies show; a unit
whose source says the values that it is to have.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from author_mistakes import Failure, Mistake

from warpsmith.agents.llm.answers import find_fenced_blocks
from warpsmith.records import Unit
from warpsmith.targets.front_matter import FIRST_LINE, FrontMatterError, body, parse


def sections_of(prompt: str) -> dict[str, str]:
    """Its headings and what is below them."""
    parts = re.split(r"^## (.+)$", prompt, flags=re.MULTILINE)
    return {name.split(" (")[0].strip(): text for name, text in zip(parts[1::2], parts[2::2], strict=True)}


def shows(lessons: str, mistake: Mistake) -> bool:
    """Whether a remedy among them is of this mistake: its diff brings the right code in, or takes the wrong out."""
    wanted = mistake.code if mistake.code.startswith("-") else None
    lines = [line for line in lessons.splitlines() if line.startswith(("+", "-"))]
    if wanted is not None:
        return any(line.startswith(wanted) for line in lines)
    return any(line.startswith("+") and mistake.code in line for line in lines)


def joined(sections: Mapping[str, str], names: Sequence[str]) -> str:
    return "\n".join(sections[n] for n in names if n in sections)


def found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    return match[1].strip() if match else ""


def regions_of(text: str) -> Iterator[tuple[int, list[str]]]:
    for match in re.finditer(r"^- (\d+): nodes (.*?) \| in:", text, re.MULTILINE):
        yield int(match[1]), match[2].split()


def covers(told: Sequence[str], nodes: Sequence[str]) -> bool:
    """The region's nodes as they are told: a long list is cut short."""
    return list(nodes) == list(told) or (told[-1] == "…" and list(nodes[: len(told) - 1]) == list(told[:-1]))


def sources_of(text: str) -> Iterator[str]:
    yield from (b.text for b in find_fenced_blocks(text) if b.text.lstrip().startswith(FIRST_LINE))


@dataclass(frozen=True)
class Example:
    family: str
    technique: str
    values: dict[str, int]


def examples_of(text: str) -> Iterator[Example]:
    for source in sources_of(text):
        try:
            matter = parse(source)
        except FrontMatterError:
            continue
        yield Example(matter.family, matter.technique, {t.name: t.value for t in matter.tunables})


def quoted(failure: Failure) -> str:
    """Words of a failure that the history would repeat."""
    told = (
        failure.diagnostics[0].message
        if failure.diagnostics
        else failure.check.detail
        if failure.check
        else failure.reason
    )
    return told[:40]


def code_of(source: str) -> str:
    """Without the comments at its top, where values stand."""
    return body(source).strip()


def at_values(unit: Unit, values: Mapping[str, int]) -> Unit:
    """The unit with these values, and its own domains, in its source."""
    kept = tuple(
        t.model_copy(update={"value": v}) if (v := values.get(t.name)) in t.domain else t
        for t in unit.tunables
    )
    source = unit.source
    for t in kept:
        line = f"// tunable: {t.name} = {t.value} {{{', '.join(map(str, t.domain))}}}"
        source = re.sub(rf"^// tunable: {t.name} = .*$", line, source, count=1, flags=re.MULTILINE)
    return unit.model_copy(update={"tunables": kept, "source": source})


def parse_values(source: str) -> dict[str, int]:
    return next((e.values for e in examples_of(f"```\n{source}\n```")), {})


def fence_of(source: str) -> str:
    return f"```cpp\n{source}```"


def renumbered(source: str, rng: random.Random) -> str:
    """Another file with the same code."""
    return source.replace(FIRST_LINE, f"{FIRST_LINE}\n// looked at again ({rng.randrange(10**6)})", 1)

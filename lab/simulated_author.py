"""A simulated author of kernels behind a language model's protocol: it reads its prompt and answers, well or not, by stated chances.

In: requests as a model gets them, and landscapes, whose sources it knows how to write. Out: answers in the forms that the prompts ask
for. Everything it does depends on the text of the prompt and a seed alone. It is no model of any real language model: the chances
below are made up, and figures that are made with it say what the loop's telling is worth to an author that heeds it this often.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import author_reading as reading
import benchmarks_on_path  # noqa: F401
from author_mistakes import BY_NAME, MISTAKES, Failure, Failures, Mistake
from landscape_flat import facts_of
from landscape_search import LandscapeBrain

from warpsmith.agents.expert.ideas import Known, ideas
from warpsmith.agents.expert.planner import plans
from warpsmith.agents.llm.prompts import RUN_ENDS, asks
from warpsmith.executors.landscape_data import Landscape
from warpsmith.llm.scripted_server import Asked
from warpsmith.records import Hypothesis, Unit, content_hash

CHANCES: Mapping[str, float] = MappingProxyType({
    "habits": 4,  # kinds of mistakes that an author is prone to, drawn by its seed
    "mistake": 0.3,  # chance of each of them in a source that it writes, where nothing told guards against it
    "lesson prevents": 0.8,  # that it is not made where a lesson in the prompt shows what ended it
    "page prevents": 0.4,  # … where a page of knowledge warns of it
    "code prevents": 0.5,  # … where an example or the parent has it right
    "history prevents": 0.3,  # … where the failure stands in the history of this run
    "mends a build": 0.6,  # chance that a repair works, from diagnostics alone
    "mends wrong results": 0.3,  # from the judge's report alone
    "lesson mends": 0.9,  # where a lesson shows what ended it
    "page mends": 0.6,  # where a page tells its cause, if that is more
    "named": 4.0,  # how many times as likely a technique is that a page names
    "tried": 0.25,  # … that stands in the history
    "takes the example's": 0.5,  # chance to write the technique, or the values, of an example or the parent
})  # fmt: skip

# What a reader of the pages takes for a recommendation of a technique.
NAMED: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "row-buffered": ("in the output row", "into the output row"), "single-pass": ("online", "Welford"),
    "3-pass": ("Three passes", "moments by"), "2-pass": ("two passes",), "split-row": ("split each row into parts",),
    "one-pass": ("one read of the input", "vector accumulators"), "panels": ("register tile",),
    "lines": ("combine the rows of a window",), "algebraic": ("one row instead of all", "collapse", "distributive"),
})  # fmt: skip
FUSED = ("fuse", "Fuse", "fusion", "Fusion")  # a page that speaks of it names the largest region

TOLD = ("Lessons from earlier failures", "What ended this failure before")
PAGES = ("Knowledge", "More knowledge")  # of the run, of the question
EXAMPLES = (
    "Good units of similar regions", "Parent: the best unit for this region so far",
    "What the built-in expert writes: correct, to learn from and to beat",
)  # fmt: skip
HISTORY = ("What was tried", "What was tried on this region")

Key = tuple[tuple[str, ...], str, str]  # nodes, family, technique


@dataclass
class Library:
    """The sources that an author knows: those of the landscapes that it is asked about. Not changed once it answers."""

    failures: Failures
    units: dict[tuple[str, Key], Unit] = field(default_factory=dict)  # by task and key
    settings: dict[tuple[str, Key], list[dict[str, int]]] = field(default_factory=dict)  # that were recorded
    bodies: dict[tuple[str, str], tuple[Key, str]] = field(default_factory=dict)  # task, code → key, mistake
    wrong: dict[str, str] = field(default_factory=dict)  # code → mistake

    def add(self, landscape: Landscape) -> None:
        task, brain, facts = landscape.header.task, LandscapeBrain(landscape), facts_of(landscape)
        for idea in ideas(task.graph, facts, Known(), plans(task.graph, facts)):
            hypothesis = Hypothesis(
                region=idea.region, family=idea.family.name, technique=idea.technique.name, bottleneck="unknown",
                expected_gain=1.0, evidence=("known",), values=idea.values,
            )  # fmt: skip
            unit = next(iter(brain.write_units(task.graph, hypothesis, 1)), None)
            if unit is not None and unit.compiled and unit.language == "c++":
                self._add(landscape, unit)

    def _add(self, landscape: Landscape, unit: Unit) -> None:
        name, key = landscape.header.task.name, key_of(unit)
        settings = [
            dict(zip(landscape.sources[p.source].names, p.values, strict=True))
            for p in landscape.points
            if not p.flags and key == _key_of_source(landscape, p.source)
        ]
        if settings:
            self.units[name, key], self.settings[name, key] = unit, settings
            self.bodies[name, reading.code_of(unit.source)] = key, ""
            for mistake in self.possible(name, unit):
                self.bodies.setdefault(
                    (name, reading.code_of(mistake.made(unit.source))), (key, mistake.name)
                )
                self.wrong[reading.code_of(mistake.made(unit.source))] = mistake.name

    def possible(self, task: str, unit: Unit) -> list[Mistake]:
        """Mistakes that a judge was seen to find in such a unit."""
        able = (m for m in MISTAKES if m.made(unit.source) != unit.source)
        return [m for m in able if self.failures.find(task, unit, m.name) is not None]

    def failure(self, task: str, unit: Unit) -> Failure | None:
        """What was recorded of the mistake in a unit; None for a right one."""
        mistake = self.wrong.get(reading.code_of(unit.source))
        return self.failures.find(task, unit, mistake) if mistake else None


def key_of(unit: Unit) -> Key:
    return unit.region.nodes, unit.family, unit.technique


def _key_of_source(landscape: Landscape, number: int) -> Key:
    source = landscape.sources[number]
    return landscape.sites[source.site].nodes, source.family, source.technique


class Author:
    """Answers requests about one task. `seed` decides what it is prone to, and every draw with the prompt."""

    def __init__(self, library: Library, task: str, seed: int) -> None:
        self.library, self.task, self.seed = library, task, seed
        habits = random.Random(f"habits {seed}")
        self.habits = [m.name for m in habits.sample(MISTAKES, int(CHANCES["habits"]))]

    def __call__(self, asked: Asked) -> str:
        rng = random.Random(content_hash([self.seed, asked.system, asked.prompt]))
        sections = reading.sections_of(asked.prompt)
        task = asked.prompt.rpartition(RUN_ENDS)[2]
        roles: dict[str, Callable[[str, Mapping[str, str], random.Random], str]] = {
            "reasoning": self._hypotheses, "review": lambda *_: "[]", "synthesis": self._unit, "compile": self._repair,
            "correctness": self._repair,
        }  # fmt: skip
        role = next((r for r in roles if asks(r, asked.prompt)), "")
        return roles.get(role, self._variation)(task, sections, rng)

    # ------------------------------------------------------------ proposing

    def _hypotheses(self, prompt: str, sections: Mapping[str, str], rng: random.Random) -> str:
        """Different ones, by weight; one that was proposed before is proposed again under another name."""
        wanted = int(reading.found(r"Propose (\d+) different", prompt) or 1)
        regions = dict(reading.regions_of(sections.get("Regions on offer", "")))
        options = [
            (i, key) for i, nodes in regions.items() for key in self._keys() if reading.covers(nodes, key[0])
        ]
        pages, history = reading.joined(sections, PAGES), reading.joined(sections, HISTORY)
        largest = max((len(key[0]) for _, key in options), default=0)
        weights = [self._weight(key, largest, pages, history) for _, key in options]
        chosen: list[dict[str, object]] = []
        for _ in range(min(wanted, len(options))):
            at = rng.choices(range(len(options)), weights)[0]
            number, key = options.pop(at)
            weights.pop(at)
            again = f", way {rng.randrange(10**6)}" if key[2] in history else ""
            chosen.append({
                "region": number, "family": key[1], "technique": f"{key[2]}{again}", "bottleneck": "memory",
                "expected_gain": 1.5, "evidence": ["it takes most of the time"],
            })  # fmt: skip
        return json.dumps(chosen)

    def _keys(self) -> list[Key]:
        return [key for task, key in self.library.units if task == self.task]

    def _weight(self, key: Key, largest: int, pages: str, history: str) -> float:
        named = any(p in pages for p in NAMED.get(key[2].split("-")[0], NAMED.get(key[2], ())))
        named = named or (len(key[0]) == largest and any(p in pages for p in FUSED))
        tried = re.search(rf"(?:: |; ){re.escape(key[2])}\b", history) is not None
        return (CHANCES["named"] if named else 1.0) * (CHANCES["tried"] if tried else 1.0)

    # ------------------------------------------------------------ writing

    def _unit(self, prompt: str, sections: Mapping[str, str], rng: random.Random) -> str:
        nodes = tuple(re.findall(r"^(\w+) = [\w.]+\(", sections.get("The region", ""), re.MULTILINE))
        family = reading.found(r"family (\S+), technique", prompt)
        technique = reading.found(r", technique: ([^,\n]+)", prompt)
        mine = [key for key in self._keys() if key[0] == nodes]
        if not mine:
            return "I do not know how to write this."
        key = next((k for k in mine if k[1:] == (family, technique)), rng.choice(mine))
        examples = list(reading.examples_of(reading.joined(sections, EXAMPLES)))
        shown = [k for k in mine for e in examples if (e.family, e.technique) == k[1:]]
        if shown and rng.random() < CHANCES["takes the example's"]:
            key = rng.choice(shown)
        return reading.fence_of(self._written(key, examples, sections, rng))

    def _written(
        self, key: Key, examples: Sequence[reading.Example], sections: Mapping[str, str], rng: random.Random
    ) -> str:
        unit = self._at(key, examples, rng)
        for name in rng.sample(self.habits, len(self.habits)):
            mistake = BY_NAME[name]
            if mistake not in self.library.possible(self.task, unit):
                continue
            if rng.random() < CHANCES["mistake"] * (1 - self._prevented(mistake, unit, sections)):
                return mistake.made(unit.source)
        return unit.source

    def _at(self, key: Key, examples: Sequence[reading.Example], rng: random.Random) -> Unit:
        """At recorded values: those of an example, or any."""
        settings = self.library.settings[self.task, key]
        like = [s for e in examples for s in settings if (e.family, e.technique) == key[1:] and s == e.values]
        known = bool(like) and rng.random() < CHANCES["takes the example's"]
        return reading.at_values(self.library.units[self.task, key], rng.choice(like if known else settings))

    def _prevented(self, mistake: Mistake, unit: Unit, sections: Mapping[str, str]) -> float:
        """By the strongest of what the prompt tells."""
        failure = self.library.failures.find(self.task, unit, mistake.name)
        said = reading.quoted(failure) if failure is not None else ""
        told = {
            "lesson prevents": reading.shows(reading.joined(sections, TOLD), mistake),
            "page prevents": any(a in reading.joined(sections, PAGES) for a in mistake.advice),
            "code prevents": mistake.code in reading.joined(sections, EXAMPLES),
            "history prevents": bool(said) and said in reading.joined(sections, HISTORY),
        }
        return max((CHANCES[name] for name, is_told in told.items() if is_told), default=0.0)

    # ------------------------------------------------------------ mending

    def _repair(self, prompt: str, sections: Mapping[str, str], rng: random.Random) -> str:
        source = next(iter(reading.sources_of(sections.get("The unit", ""))), "")
        known = self.library.bodies.get((self.task, reading.code_of(source)))
        if known is None:
            return "I see nothing wrong with it."
        key, name = known
        mistake = BY_NAME.get(name)
        chance = CHANCES["mends a build" if "Diagnostics" in sections else "mends wrong results"]
        if mistake is not None and reading.shows(reading.joined(sections, TOLD), mistake):
            chance = CHANCES["lesson mends"]
        elif mistake is not None and any(a in reading.joined(sections, PAGES) for a in mistake.advice):
            chance = max(chance, CHANCES["page mends"])
        mended = reading.at_values(self.library.units[self.task, key], reading.parse_values(source))
        if mistake is None or rng.random() < chance:
            return reading.fence_of(mended.source)
        return reading.fence_of(reading.renumbered(mistake.made(mended.source), rng))

    def _variation(self, prompt: str, sections: Mapping[str, str], rng: random.Random) -> str:
        """Of the first source that is shown: another technique for its region, or other values."""
        known = (self.library.bodies.get((self.task, reading.code_of(s))) for s in reading.sources_of(prompt))
        nodes = next((found[0][0] for found in known if found is not None), None)
        if nodes is None:
            return "I do not know how to write this."
        key = rng.choice([k for k in self._keys() if k[0] == nodes])
        return reading.fence_of(self._written(key, [], sections, rng))

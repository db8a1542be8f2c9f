"""What the prompts of recorded runs are like: how much of a call is the same as in earlier calls, and what is in it.

    python benchmarks/prompt_measures.py ARCHIVE [--out results/llm/prompts]

In: an archive with exchanges. Out: for each run and for all: tokens asked (characters / 4), the share of a call that begins an earlier call
of its run, letter by letter (what a provider's cache saves), the same for the longest beginning that all calls of a run share, the share of
knowledge, of repeated lines, of reviews, and figures that contradict each other. Writes <out>.json. Works on archives of any version.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from warpsmith.archive.store import Archive
from warpsmith.records import Exchange

CHARACTERS_PER_TOKEN = 4
MIN_LINE_CHARACTERS = 30  # of a line whose repetition counts
KNOWLEDGE = re.compile(r"^(?:More k|K)nowledge", re.MULTILINE)
REFERENCE = re.compile(r"the reference takes ([\d,.]+) us")
NODE_US = re.compile(r"^- \w+ \([\w.]+\): ([\d,.]+) us$", re.MULTILINE)
MAX_FACTOR = 1.25  # between the reference's time and the sum of its nodes, above which they contradict


@dataclass(frozen=True)
class Measures:
    calls: int
    tokens: int  # asked
    shared: float  # of the characters: a beginning of an earlier call of the run
    common: float  # the beginning that all calls of the run share
    knowledge: float
    repeated: float  # lines that stood before in the same call
    reviews: float
    contradictions: int  # calls with figures that contradict each other


def measure(exchanges: Sequence[Exchange]) -> Measures:
    """Measure the calls of one run, in the order in which they were asked."""
    calls = [f"{e.system}\n\n{e.prompt}" for e in exchanges]
    total = sum(map(len, calls)) or 1
    shared = sum(find_shared(call, calls[:i]) for i, call in enumerate(calls))
    first = len(calls[0]) if calls else 0
    later = (total - first) or 1
    return Measures(
        calls=len(calls), tokens=total // CHARACTERS_PER_TOKEN, shared=round(shared / later, 4),
        common=round(len(calls) * count_common(calls) / total, 4) if calls else 0.0,
        knowledge=round(sum(map(count_knowledge, calls)) / total, 4),
        repeated=round(sum(map(count_repeated, calls)) / total, 4),
        reviews=round(sum(len(c) for e, c in zip(exchanges, calls, strict=True) if is_review(e)) / total, 4),
        contradictions=sum(map(contradicts, calls)),
    )  # fmt: skip


def count_common(texts: Sequence[str]) -> int:
    """Count the characters with which all of them begin."""
    first, last = min(texts), max(texts)
    return next(
        (i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last))
    )


def find_shared(call: str, earlier: Iterable[str]) -> int:
    """Return how many of its characters begin one of the earlier calls."""
    return max((count_common([call, one]) for one in earlier), default=0)


def count_knowledge(call: str) -> int:
    """Count the characters of sections of written knowledge."""
    sections = re.split(r"^## ", call, flags=re.MULTILINE)
    return sum(len(s) for s in sections if KNOWLEDGE.match(s))


def count_repeated(call: str) -> int:
    """Count the characters of long lines beyond their first time."""
    lines = Counter(line.strip() for line in call.splitlines() if len(line.strip()) >= MIN_LINE_CHARACTERS)
    return sum(len(line) * (count - 1) for line, count in lines.items())


def contradicts(call: str) -> bool:
    """Return whether the reference's time is not near the sum of its nodes, or is told twice, differently."""
    told = {float(text.replace(",", "")) for text in REFERENCE.findall(call)}
    nodes_us = sum(float(text.replace(",", "")) for text in NODE_US.findall(call))
    off = bool(nodes_us) and any(not 1 / MAX_FACTOR <= us / nodes_us <= MAX_FACTOR for us in told if us)
    return len(told) > 1 or off


def is_review(exchange: Exchange) -> bool:
    return "(prompt review " in exchange.system or "(prompt review " in exchange.prompt


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("archive", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    archive = Archive(options.archive)
    runs = {r.task_name: archive.exchanges(r.run_id) for r in archive.runs()}
    measured = {name: asdict(measure(exchanges)) for name, exchanges in runs.items() if exchanges}
    text = json.dumps(measured, indent=2)
    print(text)
    if options.out is not None:
        options.out.with_suffix(".json").write_text(text + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

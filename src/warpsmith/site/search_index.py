"""The index of the search: a line for each task and kernel, and the words of sources, a file for each two first letters."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field

from ..pages.safety import clip, make_file_id, show_controls
from ..records import Candidate, Task
from ..wording import label
from .writing import Writer

WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{2,39}")
MAX_WORDS = 2_000  # of one entry's sources


@dataclass
class SearchIndex:
    entries: list[tuple[str, str, str, str]] = field(default_factory=list)  # (kind, page, title, words)
    sources: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))  # word → entries

    def add_task(self, task: Task, page: str) -> None:
        operators = " ".join(
            dict.fromkeys(n.op.removeprefix("aten.").removesuffix(".default") for n in task.graph.nodes)
        )
        self._add(
            ("task", page, clip(task.name, 120), clip(f"{task.suite} {operators}", 400)), task.source.text
        )

    def add_kernel(self, candidate: Candidate, task_name: str, outcome: str) -> None:
        families = " ".join(dict.fromkeys(f"{u.family} {u.language}" for u in candidate.units))
        words = (
            f"{outcome} {task_name} {candidate.target} {families} {candidate.lineage.operator} {candidate.id}"
        )
        page = f"kernels/{make_file_id(candidate.id)}.html"
        text = "\n".join([candidate.lineage.reason, *(u.text for u in candidate.units)])
        self._add(("kernel", page, clip(label(candidate), 120), clip(words, 300)), text)

    def write(self, writer: Writer) -> None:
        shown = [
            (kind, page, show_controls(title), show_controls(words))
            for kind, page, title, words in self.entries
        ]
        writer.write_script("data/search.js", "addEntries", shown)
        shards: dict[str, dict[str, list[int]]] = defaultdict(dict)
        for word in sorted(self.sources):
            shards[word[:2]][word] = _make_steps(self.sources[word])
        for shard, words in shards.items():
            writer.write_script(f"data/words/{shard}.js", "addWords", shard, words)
        writer.write_page("search.html", "search.html")

    def _add(self, entry: tuple[str, str, str, str], text: str) -> None:
        number = len(self.entries)
        self.entries.append(entry)
        for word in sorted({w.lower() for w in WORD.findall(text)})[:MAX_WORDS]:
            self.sources[word].append(number)


def _make_steps(numbers: list[int]) -> list[int]:
    """Write rising numbers as differences, which are short."""
    return [b - a for a, b in zip([0, *numbers], numbers, strict=False)]

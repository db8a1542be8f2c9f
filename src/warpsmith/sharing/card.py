"""A dataset's card: what is in it, where it is from, how it was verified, under which licences.

What `datasets.write_dataset` counted in, markdown out, with the YAML header that the Hugging Face Hub and
`datasets.load_dataset` read (https://huggingface.co/docs/hub/datasets-cards).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

from .columns import DATASETS, STEP, table
from .files import Format
from .splits import SPLITS

ABOUT = {
    "pairs": "A task's region, and the best verified unit for it.",
    "preferences": "Two candidates for the same regions on one machine: surely faster and slower, or correct and not.",
    "trajectories": "A run: every candidate in the order in which it was judged, with hypothesis, verdict and reward.",
}
SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


class Counted(Protocol):
    """The counts that a card is written from."""

    licenses: Counter[str]
    origins: Counter[str]
    ties: dict[str, set[str]]
    splits: dict[str, str]
    repeated: int

    def sizes(self, kind: str) -> dict[str, int]: ...


def card(contents: Counted, kinds: Sequence[str], format: Format, seed: int, machines: Sequence[str]) -> str:
    """`machines`: each with its software, in a line."""
    kinds_present = [kind for kind in kinds if contents.sizes(kind)]
    parts = [
        _header(contents, kinds_present, format),
        "# Verified kernels\n\nWritten by warpsmith from an archive of its runs. A unit is one C++ or CUDA C++ file "
        "that replaces a region of a PyTorch module's graph.",
        _counts(contents, kinds_present),
        *(f"## {kind}\n\n{ABOUT[kind]}\n\n{table(DATASETS[kind])}" for kind in kinds_present),
        *([f"### A step\n\n{table(STEP)}"] if "trajectories" in kinds_present else []),
        _splits(contents, seed),
        _describe_verification(contents, machines),
        _licenses(contents.licenses),
        _use(kinds_present, format),
    ]
    return "\n\n".join(parts) + "\n"


def _header(contents: Counted, kinds: Sequence[str], format: Format) -> str:
    total = sum(sum(contents.sizes(kind).values()) for kind in kinds)
    size = next((name for limit, name in SIZES if total < limit), "n>1M")
    lines = ["---", "pretty_name: Verified kernels", "tags:", "- code", "- cuda", "- kernels", "license:"]
    lines += [f"- {json.dumps(license.lower())}" for license in sorted(contents.licenses)]
    lines += ["task_categories:", "- text-generation", "size_categories:", f"- {size}", "configs:"]
    for number, kind in enumerate(kinds):
        lines += [f"- config_name: {kind}", *(["  default: true"] if number == 0 else []), "  data_files:"]
        for split in contents.sizes(kind):
            lines += [f"  - split: {split}", f"    path: data/{kind}/{split}.{format}"]
    return "\n".join([*lines, "---"])


def _counts(contents: Counted, kinds: Sequence[str]) -> str:
    rows = [
        f"| {kind} | {' | '.join(str(contents.sizes(kind).get(split, 0)) for split in SPLITS)} |"
        for kind in kinds
    ]
    tasks = f"{len(contents.ties)} tasks; {contents.repeated} examples were left out as repetitions."
    head = f"| | {' | '.join(SPLITS)} |\n|---|{'---|' * len(SPLITS)}"
    return "\n".join(["## Rows\n", head, *rows, "", tasks])


def _splits(contents: Counted, seed: int) -> str:
    used = set(contents.splits.values())
    missing = [split for split in SPLITS if split not in used]
    text = (
        "## Splits\n\nBy task: tasks that share a region's signature, or the code of a unit, directly or through other "
        f"tasks, are in one split, the same in every kind. Seed {seed}. Among examples whose units differ in comments and "
        "layout only, the first is kept."
    )
    return text + (f" Too few groups of tasks for {' and '.join(missing)}." if missing else "")


def _describe_verification(contents: Counted, machines: Sequence[str]) -> str:
    origins = ", ".join(f"{count} rows {origin}" for origin, count in sorted(contents.origins.items()))
    return "\n".join(
        [
            "## How it was verified, and where\n",
            "Each unit was compared with the reference in float64 over several input families, shapes and seeds; speed is that of the whole module as deployed, side by side with each baseline, with "
            "a bootstrap interval. A speedup is over the fastest baseline of that run, and holds on the machine it names. "
            "Tasks that were found to let a wrong kernel pass are left out.\n",
            f"Origin: {origins}.\n",
            *(f"- {machine}" for machine in machines),
        ]
    )


def _licenses(licenses: Mapping[str, int]) -> str:
    rows = (f"| {license} | {count} |" for license, count in sorted(licenses.items()))
    return "\n".join(["## Licences\n", "| licence | rows |", "|---|---|", *rows])


def _use(kinds: Sequence[str], format: Format) -> str:
    return (
        "## Use\n\n```python\nfrom datasets import load_dataset\n\n"
        f'rows = load_dataset("path/to/this/folder", "{kinds[0]}")\n```'
    )

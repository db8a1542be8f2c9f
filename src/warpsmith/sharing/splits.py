"""Tasks into train, validation and test so that nothing that was seen in training is asked in a test.

In: which signatures the rows of each task have, and how many rows it has. Two tasks that share a signature, directly or
through others, stay together; whole groups of such tasks go to one split. The same rows and seed give the same splits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..records import content_hash

SPLITS: dict[str, float] = {"train": 0.8, "validation": 0.1, "test": 0.1}  # name → share of the rows aimed at


def split_tasks(
    signatures: Mapping[str, Iterable[str]], rows: Mapping[str, int], seed: int
) -> dict[str, str]:
    """Task → split. With three groups or more no split is empty; with one, everything is for training."""
    groups = components(signatures)
    order = {g: content_hash([seed, tasks]) for g, tasks in enumerate(groups)}
    size = {g: sum(rows.get(task, 0) for task in tasks) for g, tasks in enumerate(groups)}
    largest = sorted(order, key=lambda g: (-size[g], order[g]))
    placed: dict[int, str] = {}
    for split in ("test", "validation"):  # the smallest groups, so that neither stays empty
        if len(largest) > 1:
            placed[largest.pop()] = split
    for group in largest:
        placed[group] = _find_neediest_split(placed, size)
    return {task: placed[g] for g, tasks in enumerate(groups) for task in tasks}


def _find_neediest_split(placed: Mapping[int, str], size: Mapping[int, int]) -> str:
    """The split that lacks most of its share of all rows."""
    total = sum(size.values())
    sizes = {split: sum(size[g] for g, at in placed.items() if at == split) for split in SPLITS}
    return max(SPLITS, key=lambda split: SPLITS[split] * total - sizes[split])


def components(signatures: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Tasks that share a signature, directly or through others, in sorted lists."""
    leader = {task: task for task in signatures}

    def find(task: str) -> str:
        while leader[task] != task:
            leader[task] = leader[leader[task]]
            task = leader[task]
        return task

    first: dict[str, str] = {}  # signature → the first task that has it
    for task in sorted(signatures):
        for signature in signatures[task]:
            leader[find(task)] = find(first.setdefault(signature, task))
    groups: dict[str, list[str]] = {}
    for task in sorted(signatures):
        groups.setdefault(find(task), []).append(task)
    return sorted(groups.values())

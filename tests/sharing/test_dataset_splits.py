"""No signature is in two splits, whatever the tasks share; the same rows and seed give the same splits."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from warpsmith.sharing.splits import SPLITS, components, split_tasks

TASKS = st.dictionaries(
    st.text("abcdefgh", min_size=1, max_size=3), st.frozensets(st.integers(0, 12).map(str), max_size=4),
    min_size=1, max_size=25,
)  # fmt: skip


@given(TASKS, st.integers(0, 5), st.data())
def test_no_signature_is_in_two_splits(signatures, seed, data):
    rows = {task: data.draw(st.integers(0, 50)) for task in signatures}
    splits = split_tasks(signatures, rows, seed)
    assert set(splits) == set(signatures)
    where = defaultdict(set)
    for task, split in splits.items():
        for signature in signatures[task]:
            where[signature].add(split)
    assert all(len(found) == 1 for found in where.values())


@given(TASKS, st.integers(0, 5))
def test_the_order_of_the_tasks_does_not_matter_and_three_groups_fill_three_splits(signatures, seed):
    rows = dict.fromkeys(signatures, 1)
    splits = split_tasks(signatures, rows, seed)
    assert splits == split_tasks(dict(reversed(signatures.items())), rows, seed)
    groups = len(components(signatures))
    assert len(set(splits.values())) == min(groups, len(SPLITS))
    assert ("train" in splits.values()) is True


def test_tasks_are_tied_through_others():
    tied = {"a": {"1"}, "b": {"1", "2"}, "c": {"2"}, "d": {"3"}}
    assert components(tied) == [["a", "b", "c"], ["d"]]


def test_the_seed_decides_and_most_rows_are_for_training():
    alone = {str(n): {str(n)} for n in range(100)}
    rows = dict.fromkeys(alone, 3)
    one, other = split_tasks(alone, rows, 0), split_tasks(alone, rows, 1)
    assert one != other
    assert [list(one.values()).count(split) for split in SPLITS] == [80, 10, 10]

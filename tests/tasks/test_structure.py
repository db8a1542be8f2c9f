"""Values of any class, taken apart and put together again."""

from __future__ import annotations

import collections
import dataclasses
import enum
import itertools
import json
import types
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.tasks.structure import (
    Builder,
    NotRebuildable,
    Parts,
    list_held,
    list_unused,
    put_together,
    same,
    take_apart,
)

Point = collections.namedtuple("Point", "x y")


class Colour(enum.Enum):
    RED = 1


@dataclasses.dataclass
class Output:
    logits: torch.Tensor
    cache: Any = None
    extra: list[Any] = dataclasses.field(default_factory=list)


class Slotted:
    __slots__ = ("held",)

    def __init__(self, held: Any) -> None:
        self.held = held


class Mapping(collections.OrderedDict):  # type: ignore[type-arg]
    """As transformers' ModelOutput: every item is an attribute, too."""

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        object.__setattr__(self, key, value)


def returned(value: Any) -> tuple[Any, Parts]:
    """The value after its description went through JSON."""
    tree, parts = take_apart(value)
    return put_together(json.loads(json.dumps(tree)), parts.leaves, parts.names), parts


def test_values_come_back_as_their_own_classes() -> None:
    tensor = torch.randn(3)
    mapping = Mapping()
    mapping["logits"] = tensor
    value = {
        "output": Output(tensor, Slotted(tensor)), "point": Point(tensor, 2.5), "mapping": mapping,
        "default": collections.defaultdict(list, {3: [tensor]}), "colour": Colour.RED, "size": tensor.shape,
        "slice": slice(1, None), "set": {"a", 3}, "infinite": float("inf"), "dtype": torch.bfloat16, "device": tensor.device,
        "function": len, "class": Output, "bytes": b"\x00\xff", "complex": 1j, 5: None,
    }  # fmt: skip
    again, parts = returned(value)
    tree, _ = take_apart(value)
    assert same(take_apart(again)[0], tree)
    assert type(again["output"]) is Output
    assert type(again["output"].cache) is Slotted
    assert type(again["point"]) is Point
    assert again["mapping"].logits is again["mapping"]["logits"]
    assert again["default"].default_factory is list
    assert again["colour"] is Colour.RED
    assert all(leaf is tensor for leaf in parts.leaves)


def test_an_instance_counts_a_tensor_once_and_a_tuple_each_time() -> None:
    tensor = torch.ones(2)
    assert len(take_apart(Output(tensor, tensor, [tensor]))[1].leaves) == 1
    assert take_apart((tensor, tensor))[0] == {"tuple": [0, 1]}


def test_unused_tensors_have_no_number_and_come_back() -> None:
    rows = [torch.ones(n + 1) for n in range(3)]
    parts = Parts(unused=[0, 2])
    tree = parts.add(rows)
    assert tree == [{"unused": 0}, 0, {"unused": 2}]
    assert [len(t) for t in parts.leaves] == [2]
    assert list_unused({"dict": {"unused": tree}}) == [0, 2], "a key of that name is none"
    new = torch.zeros(2)
    built = Builder([new], {}, skipped=parts.skipped).build(tree)
    assert [id(t) for t in built] == [id(rows[0]), id(new), id(rows[2])]


def test_tensors_that_instances_hold_are_told_from_those_of_the_call() -> None:
    held = types.SimpleNamespace(rows=[torch.ones(1)], more={"unused": torch.ones(2)})
    tree, parts = take_apart([torch.ones(3), held, {"a": torch.ones(4)}])
    assert [len(parts.leaves[n]) for n in list_held(tree)] == [1, 2]


def test_shared_and_cyclic_objects_stay_one_object() -> None:
    output = Output(torch.ones(1))
    output.extra.append(output)
    again, _ = returned([output, output])
    assert again[0] is again[1]
    assert again[0].extra[0] is again[0]


def test_paths_name_every_tensor() -> None:
    _, parts = take_apart({"a": [torch.ones(1)], "b": Output(torch.ones(1), Point(torch.ones(1), 0))})
    assert parts.paths == [("a", "0"), ("b", "logits"), ("b", "cache", "0")]


def test_true_one_and_a_float_are_three_values() -> None:
    trees = [take_apart(v)[0] for v in (True, 1, 1.0)]
    assert not any(same(a, b) for a, b in itertools.pairwise(trees))


class Subclass(torch.Tensor):
    pass


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (torch.nn.Linear(2, 2), "Linear, which is a module"),
        ((x for x in ()), "generator"),
        (torch.ones(1).as_subclass(Subclass), "Subclass; take or return plain tensors"),
    ],
)
def test_what_cannot_be_rebuilt_is_refused_by_name(value: Any, said: str) -> None:
    with pytest.raises(NotRebuildable, match=said):
        take_apart([value])


def test_two_functions_of_one_name_are_told_apart() -> None:
    first, second = (lambda: 1), (lambda: 2)
    again, _ = returned([first, second])
    assert again[0] is first
    assert again[1] is second


def test_a_name_is_looked_up_in_the_table_alone() -> None:
    tree = {"object": {"make": "call", "of": "os:system", "args": [{"const": "true"}]}}
    with pytest.raises(KeyError):
        put_together(tree, [], {})


def test_an_object_takes_other_contents_in_place() -> None:
    for old, new in (
        ([1], [2, 3]), ({"a": 1}, {"b": 2}), (Output(torch.ones(1)), Output(torch.zeros(2), 3)),
        (collections.deque([1]), collections.deque([2, 3])), ({1}, {4, 5}),
    ):  # fmt: skip
        parts = Parts([old])
        tree = parts.contents(new)
        builder = Builder(parts.leaves, parts.names, parts.objects[:1])
        builder.refill(old, json.loads(json.dumps(tree)))
        assert same(take_apart(old)[0], take_apart(new)[0])


plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
nested = st.recursive(
    plain | st.just("tensor"),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner, inner)
        | st.builds(Output, inner, inner, st.lists(inner)) | st.builds(Point, inner, inner) | st.builds(Slotted, inner)
    ),
    max_leaves=12,
)  # fmt: skip


def with_tensors(value: Any) -> Any:
    """Every "tensor" replaced by one."""
    if value == "tensor" and isinstance(value, str):
        return torch.ones(1)
    if isinstance(value, list):
        return [with_tensors(v) for v in value]
    return {k: with_tensors(v) for k, v in value.items()} if isinstance(value, dict) else value


@given(nested)
def test_any_nesting_survives(value: Any) -> None:
    value = with_tensors(value)
    again, parts = returned(value)
    tree, theirs = take_apart(again)
    assert same(tree, take_apart(value)[0])
    assert all(a is b for a, b in zip(parts.leaves, theirs.leaves, strict=True))

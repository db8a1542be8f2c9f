"""The user's side of a call: are these arguments those that a graph was made for, and results in the user's own classes.

In: the descriptions of arguments and results that a graph holds (`Graph.call`, `Graph.tree`; see `tasks.structure` and
`tasks.flattened`), and the user's classes by name. Out: the tensors of a call, or None where it is another call; and after the
graph has run, what the module would have returned, with the same objects and attributes changed. This file needs torch and
`structure` alone: it is copied into exported packages.
"""

from __future__ import annotations

import copyreg
import inspect
import json
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import is_
from typing import Any

import torch

from ..tasks.structure import (
    Builder,
    NotRebuildable,
    Parts,
    attribute,
    form,
    list_unused,
    same,
    take_apart,
)

_NONE = inspect.Parameter.empty
_PLAIN = (bool, int, float, str, bytes)
MOST_ORDERS = 32  # that are remembered
Matched = tuple[list[Any], list[Any]]  # tensors and mutable objects, in the order of the description


class CallMatcher:
    """Finds the tensors in a call whose arguments nest as `call` says, with the same constants.

    What the example passed by name may come by position, and the other way; defaults may be given or left out.
    """

    def __init__(self, function: Callable[..., Any], call: Any) -> None:
        args, kwargs = call["tuple"][0]["tuple"], call["tuple"][1]["dict"]
        self._count = len(args)
        self._plain = not kwargs and args == list(range(len(args)))
        self._whole = json.dumps(call)
        self._unused = list_unused(call)
        self._known: dict[str, KnownInstance] = {}  # by argument
        self._instances: set[str] = set()  # arguments that are remembered
        self._signature: inspect.Signature | None = None
        self._expected: dict[str, str] = {}
        self._trees: dict[str, Any] = {}  # the same, not as text
        self._orders: dict[tuple[Any, ...], list[tuple[str, Source]]] = {}
        try:
            signature = inspect.signature(function)
            bound = signature.bind(*args, **kwargs)
        except (TypeError, ValueError):
            return
        self._signature = signature
        self._trees = dict(bound.arguments)
        self._expected = {name: json.dumps(tree) for name, tree in bound.arguments.items()}
        # What refers to itself would be kept alive by what is remembered of it.
        self._instances = {n for n, t in self._expected.items() if '"object": ' in t and '"ref": ' not in t}

    def match(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Matched | None:
        if self._plain and not kwargs and len(args) == self._count:
            return list(args), []
        parts = Parts(unused=self._unused)
        try:
            fits = self._fits(parts, args, kwargs)
        except (NotRebuildable, TypeError):
            return None
        return (parts.leaves, parts.objects) if fits else None

    def _fits(self, parts: Parts, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        if self._signature is None:
            tree = [
                {"tuple": [parts.add(a) for a in args]},
                {"dict": {k: parts.add(v) for k, v in kwargs.items()}},
            ]
            return json.dumps({"tuple": tree}) == self._whole
        shape = (len(args), *kwargs)
        order = self._orders.get(shape)
        if order is None:
            order = self._find_order(len(args), kwargs)
            if len(self._orders) < MOST_ORDERS:
                self._orders[shape] = order
        return all(self._fits_argument(parts, name, source.read(args, kwargs)) for name, source in order)

    def _find_order(self, count: int, names: Iterable[str]) -> list[tuple[str, Source]]:
        """Say where each parameter finds its value in a call with so many arguments by position, and those names. Raises TypeError."""
        assert self._signature is not None
        bound = self._signature.bind(*map(ByPosition, range(count)), **{n: ByName(n) for n in names})
        bound.apply_defaults()
        return [(name, _as_source(value)) for name, value in bound.arguments.items()]

    def _fits_argument(self, parts: Parts, name: str, value: Any) -> bool:
        assert self._signature is not None
        parameter = self._signature.parameters[name]
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            return json.dumps([parts.add(v) for v in value]) == self._expected.get(name, "[]")
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            described = {k: parts.add(v) for k, v in sorted(value.items())}
            return json.dumps(described) == self._expected.get(name, "{}")
        if name in self._expected:
            return self._fits_expected(parts, name, value)
        return value is parameter.default or (
            parameter.default is not _NONE and _equal(value, parameter.default)
        )

    def _fits_expected(self, parts: Parts, name: str, value: Any) -> bool:
        """To take a cache apart takes longer than a layer: one that is as it was in the last call is not taken apart again."""
        instance = self._known.get(name)
        if instance is not None and instance.add_again(parts, value):
            return True
        before = parts.count()
        tree = parts.add(value)
        if not _is_equal(tree, self._trees[name]) and json.dumps(tree) != self._expected[name]:
            return False
        if name in self._instances and is_transparent(parts.objects[before[1] :], value):
            forget = partial(self._known.pop, name, None)
            self._known[name] = KnownInstance(parts, before, value, forget)
        return True


@dataclass(frozen=True)
class ByPosition:
    """A parameter's value is the argument at this position."""

    position: int

    def read(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        return args[self.position]


@dataclass(frozen=True)
class ByName:
    """A parameter's value is the argument of this name."""

    name: str

    def read(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        return kwargs[self.name]


@dataclass(frozen=True)
class Default:
    value: Any

    def read(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        return self.value


@dataclass(frozen=True)
class Several:
    """A parameter's values are those of `*args` or `**kwargs`."""

    sources: Sequence[Source] | Mapping[str, Source]

    def read(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if isinstance(self.sources, Mapping):
            return {name: source.read(args, kwargs) for name, source in self.sources.items()}
        return tuple(source.read(args, kwargs) for source in self.sources)


Source = ByPosition | ByName | Default | Several


def _as_source(value: Any) -> Source:
    if isinstance(value, ByPosition | ByName):
        return value
    nested = list(value.values()) if type(value) is dict else value
    if type(nested) in (tuple, list) and nested and isinstance(nested[0], ByPosition | ByName):
        return Several(value)
    return Default(value)


def _is_equal(tree: Any, expected: Any) -> bool:
    """Compare descriptions: True for equal ones that are made of the same types."""
    kind = type(tree)
    if kind is not type(expected):
        return False
    if kind is dict:
        return tree.keys() == expected.keys() and all(_is_equal(v, expected[k]) for k, v in tree.items())
    if kind is list:
        return len(tree) == len(expected) and all(map(_is_equal, tree, expected))
    return bool(tree == expected)


class KnownInstance:
    """An instance that was taken apart in an earlier call, and all that it held. As long as nothing in it is replaced, its tensors are
    the same. It is not kept alive.
    """

    def __init__(
        self, parts: Parts, before: tuple[int, int, int], value: Any, forget: Callable[[], Any]
    ) -> None:
        """`before`: what the parts held when it was added to them; `forget` is called when it is gone."""
        leaves, objects, visited = before
        self._value, self._before = weakref.ref(value, lambda _: forget()), before
        self._leaves, self._inner = parts.leaves[leaves:], parts.objects[objects + 1 :]
        self._visited = parts.count()[2] - visited
        self._contents = [_list_contents(value), *map(_list_contents, self._inner)]

    def add_again(self, parts: Parts, value: Any) -> bool:
        """Add what it holds to the parts, if it is the same, holds the same, and has the same numbers."""
        if self._value() is not value or parts.count() != self._before:
            return False
        for part, former in zip([value, *self._inner], self._contents, strict=True):
            current = _list_contents(part)
            if len(current) != len(former):
                return False
            if not (all(map(is_, current, former)) or all(map(_is_same, current, former))):
                return False
        parts.add_known(self._leaves, [value, *self._inner], self._visited)
        return True


def is_transparent(objects: Sequence[Any], value: Any) -> bool:
    """Return whether all that an instance and the other objects hold is in lists, dicts and attributes, where it can be compared quickly."""
    return (
        bool(objects)
        and objects[0] is value
        and type(value) not in (list, dict)
        and all(map(_is_plain, objects))
    )


def _is_plain(thing: Any) -> bool:
    kind = type(thing)
    if kind in (list, dict):
        return True
    own_ways = ("__reduce_ex__", "__reduce__", "__getstate__")
    return (
        hasattr(thing, "__dict__")
        and bool(kind.__weakrefoffset__)
        and all(getattr(kind, name) is getattr(object, name) for name in own_ways)
        and not any(vars(base).get("__slots__") for base in kind.__mro__)
        and kind not in copyreg.dispatch_table
        and not issubclass(kind, list | dict | set | frozenset | tuple | int | float | str | bytes)
    )


def _list_contents(thing: Any) -> list[Any]:
    if type(thing) is list:
        return list(thing)
    holder = thing if type(thing) is dict else vars(thing)
    return [*holder, *holder.values()]


def _is_same(value: Any, other: Any) -> bool:
    return value is other or (type(value) is type(other) and type(value) in _PLAIN and bool(value == other))


class Results:
    """The results of a call: `tree` as `Graph.tree` has it."""

    def __init__(self, original: torch.nn.Module, tree: Any, names: Mapping[str, Any]) -> None:
        changes = isinstance(tree, dict) and "result" in tree
        self._original, self._names = original, names
        self._tree = tree["result"] if changes else tree
        self._updates = tree["updates"] if changes else []
        self._attributes = tree["attributes"] if changes else []
        text = json.dumps(tree)  # once: `known` is asked in every call
        self._has_names = any(f'"{tag}": ' in text for tag in ("object", "global", "singleton"))

    @property
    def known(self) -> bool:
        """True if every class that results need has been seen; else the original must be called once (`learn`)."""
        return bool(self._names) or not self._has_names

    @property
    def changing(self) -> list[tuple[str, str]]:
        """The attributes, by path and name, that a call changes."""
        return [(path, name) for path, name, *_ in self._attributes]

    def learn(self, result: Any, objects: Sequence[Any]) -> bool:
        """Take the classes from what the original returned, if that is what the description says.

        So no class is looked up by a name that came from a file.
        """
        parts = Parts(objects)
        tree = parts.add(result)
        updates = [[n, parts.contents(objects[n])] for n, _ in self._updates]
        attribute_values = [
            parts.add(attribute(self._original, path, name)) for path, name, *_ in self._attributes
        ]
        self._names = parts.names
        described = [self._tree, self._updates, [after for *_, after in self._attributes]]
        return same([tree, updates, attribute_values], described)

    def differs(self) -> str:
        """The attribute, of those that a call changes, that is in another form than when the graph was made; else empty."""
        for path, name, before, _ in self._attributes:
            if not same(form(self._original, path, name), before):
                return f"{path}.{name}" if path else name
        return ""

    def build(self, leaves: Sequence[Any], objects: Sequence[Any]) -> Any:
        """The result; given objects and the module's attributes are changed as a call of the original changes them."""
        builder = Builder(leaves, self._names, objects)
        result = builder.build(self._tree)
        for number, contents in self._updates:
            builder.refill(builder.objects[number], contents)
        for path, name, _, tree in self._attributes:
            setattr(self._original.get_submodule(path), name, builder.build(tree))
        return result


def _equal(value: Any, other: Any) -> bool:
    """Return whether two values hold the same, and no tensors."""
    (tree, parts), (expected, _) = take_apart(value), take_apart(other)
    return not parts.leaves and same(tree, expected)


__all__ = ["CallMatcher", "Matched", "Results"]

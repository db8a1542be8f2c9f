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
from functools import partial
from operator import is_, itemgetter
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
MOST_SOURCES = 32  # kinds of calls of which it is remembered where arguments lie
Given = Mapping[Any, Any]  # the arguments of a call, by position or name
Source = tuple[str, Callable[[Given], Any]]  # a parameter, and what reads its value
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
        self._expected: dict[str, Any] = {}  # descriptions by argument
        self._sources: dict[
            tuple[int | str, ...], list[Source]
        ] = {}  # by positions and names of a call's arguments
        try:
            signature = inspect.signature(function)
            bound = signature.bind(*args, **kwargs)
        except (TypeError, ValueError):
            return
        self._signature = signature
        self._expected = {n: list(t) if type(t) is tuple else t for n, t in bound.arguments.items()}
        texts = {name: json.dumps(tree) for name, tree in self._expected.items()}
        # What refers to itself would be kept alive by what is remembered of it.
        self._instances = {n for n, t in texts.items() if '"object": ' in t and '"ref": ' not in t}

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
        arguments: dict[Any, Any] = {**dict(enumerate(args)), **kwargs}
        keys = tuple(arguments)
        sources = self._sources.get(keys)
        if sources is None:
            sources = self._find_sources(len(args), kwargs)
            if len(self._sources) < MOST_SOURCES:
                self._sources[keys] = sources
        return all(self._fits_argument(parts, name, read(arguments)) for name, read in sources)

    def _find_sources(self, count: int, names: Iterable[str]) -> list[Source]:
        """Say where each parameter finds its value in a call with so many arguments by position, and those names. Raises TypeError."""
        assert self._signature is not None
        bound = self._signature.bind(*range(count), **{name: name for name in names})
        return [
            (
                name,
                _make_reader(bound.arguments[name]) if name in bound.arguments else _make_default(parameter),
            )
            for name, parameter in self._signature.parameters.items()
        ]

    def _fits_argument(self, parts: Parts, name: str, value: Any) -> bool:
        assert self._signature is not None
        parameter = self._signature.parameters[name]
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            return same([parts.add(v) for v in value], self._expected.get(name, []))
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            described = {k: parts.add(v) for k, v in sorted(value.items())}
            return same(described, self._expected.get(name, {}))
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
        if not same(parts.add(value), self._expected[name]):
            return False
        if name in self._instances and is_transparent(parts.objects[before[1] :], value):
            forget = partial(self._known.pop, name, None)
            self._known[name] = KnownInstance(parts, before, value, forget)
        return True


def _make_reader(keys: Any) -> Callable[[Given], Any]:
    """Make the function that reads a parameter's value; `keys`: of its argument, or of those that `*args` or `**kwargs` take up."""
    if isinstance(keys, tuple):
        return lambda given: tuple(given[key] for key in keys)
    if isinstance(keys, dict):
        return lambda given: {name: given[name] for name in keys}
    return itemgetter(keys)


def _make_default(parameter: inspect.Parameter) -> Callable[[Given], Any]:
    several: dict[Any, Any] = {inspect.Parameter.VAR_POSITIONAL: (), inspect.Parameter.VAR_KEYWORD: {}}
    value = several.get(parameter.kind, parameter.default)
    return lambda given: value


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
    kind = type(value)
    return value is other or (kind is type(other) and kind in _PLAIN and repr(value) == repr(other))


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

"""Python values of any class taken apart into tensors and a plain description, and put together again as the user's own types.

In: what a module takes or returns: tensors, builtin containers, and whatever the copy protocol of Python (`__reduce_ex__`) can
take apart: dataclasses, named tuples, mappings, caches, enums. Out: the tensors in order, and a description in JSON:

| JSON | value |
|---|---|
| number | the tensor of that number |
| `{"unused": n}` | a tensor that no operation reads, the n-th of all; it has no number among the others |
| list, `{"tuple": []}`, `{"dict": {}}` | as it says; `{"pairs": [[key, value]]}`: a dict with other keys than strings |
| `{"const": x}`, `{"float": "inf"}`, `{"bytes": base64}` | None, bool, int, float, str, bytes |
| `{"dtype" \\| "device" \\| "layout" \\| "memory_format": name}` | torch's |
| `{"global": name}`, `{"singleton": name}` | a class or a function; an object of which there is one |
| `{"object": {"make", "of", "args", "state", "items", "pairs"}}` | an instance, in the terms of `copy` and `pickle` |
| `{"ref": n}` | the n-th mutable object that was visited, again |

A name stands for an object only in a table of live ones (`names`), which is filled where a value is taken apart; nothing is
imported by name. So a description that came from elsewhere can name no class but those that the user's own values have.
This file needs torch and nothing of warpsmith: it is copied into exported packages.
"""

from __future__ import annotations

import base64
import copyreg
import json
import math
import types
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor

_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType)
_TORCH = {torch.dtype: "dtype", torch.layout: "layout", torch.memory_format: "memory_format"}
_REMEDY = "take or return tensors, numbers, strings, and containers or classes that copy.copy can copy"
_DEEPEST = 100
_TENSORS = (torch.Tensor, torch.nn.Parameter, FakeTensor, FunctionalTensor)


class NotRebuildable(TypeError):
    """A value of a class that cannot be taken apart and put together again."""


class Parts:
    """Values taken apart one after another into the same tensors, objects and names.

    `leaves`: tensors in the order of visits; `paths`: where each lies; `objects`: mutable objects in the order of first visits;
    `names`: classes and functions by the name that the description uses.
    """

    def __init__(self, objects: Iterable[Any] = (), unused: Collection[int] = ()) -> None:
        """`objects`: those that are known already, by number; `unused`: the tensors, in the order of visits, that are no leaves."""
        self.leaves: list[torch.Tensor] = []
        self.paths: list[tuple[str, ...]] = []
        self.skipped: dict[int, torch.Tensor] = {}  # the unused ones
        self.objects: list[Any] = list(objects)
        self.names: dict[str, Any] = {}
        self._numbers = {id(o): n for n, o in enumerate(self.objects)}
        self._kept: list[Any] = []  # temporary objects, so that no other takes their address
        self._unused, self._visited = frozenset(unused), 0
        self._seen: dict[int, Any] | None = (
            None  # descriptions of the tensors of the instance that is being visited
        )
        self._depth = 0

    def add(self, value: Any, path: tuple[str, ...] = ()) -> Any:
        """The description of a value. Raises NotRebuildable, with the class's name."""
        if isinstance(value, torch.Tensor):
            return self._leaf(value, path)
        if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
            raise NotRebuildable("a Python number that depends on data; take or return a tensor")
        plain = _plain(value)
        if plain is not None:
            return plain
        if isinstance(value, (type, *_FUNCTIONS)):
            return {"global": self._name(value)}
        if type(value) is tuple:
            return {"tuple": [self.add(v, (*path, str(i))) for i, v in enumerate(value)]}
        number = self._numbers.get(id(value))
        if number is not None:
            return {"ref": number}
        self._numbers[id(value)] = len(self.objects)
        self.objects.append(value)
        return self.contents(value, path)

    def count(self) -> tuple[int, int, int]:
        """Return how many leaves, objects and tensors in all there are so far."""
        return len(self.leaves), len(self.objects), self._visited

    def add_known(self, leaves: Sequence[torch.Tensor], objects: Sequence[Any], visited: int) -> None:
        """Add what an instance led to when it was taken apart before; paths and unused tensors are left out."""
        self._numbers |= {id(o): len(self.objects) + n for n, o in enumerate(objects)}
        self.leaves += leaves
        self.objects += objects
        self._visited += visited

    def contents(self, value: Any, path: tuple[str, ...] = ()) -> Any:
        """The description of what a mutable object holds, the object itself known or not."""
        if self._depth >= _DEEPEST:
            raise NotRebuildable(f"a {_name_class(type(value))} nests more than {_DEEPEST} deep")
        self._depth += 1
        try:
            if type(value) is list:
                return [self.add(v, (*path, str(i))) for i, v in enumerate(value)]
            if type(value) is dict:
                return self._dict(value, path)
            return self._instance(value, path)
        finally:
            self._depth -= 1

    def _leaf(self, value: torch.Tensor, path: tuple[str, ...]) -> Any:
        if type(value) not in _TENSORS:
            raise NotRebuildable(
                f"a tensor of the class {_name_class(type(value))}; take or return plain tensors"
            )
        if self._seen is None:
            return self._new_leaf(value, path)
        if id(value) not in self._seen:
            self._seen[id(value)] = self._new_leaf(value, path)
        return self._seen[id(value)]

    def _new_leaf(self, value: torch.Tensor, path: tuple[str, ...]) -> Any:
        number, self._visited = self._visited, self._visited + 1
        if number in self._unused:
            self.skipped[number] = value
            return {"unused": number}
        self.leaves.append(value)
        self.paths.append(path)
        return len(self.leaves) - 1

    def _dict(self, value: dict[Any, Any], path: tuple[str, ...]) -> Any:
        if all(type(key) is str for key in value):
            return {"dict": {k: self.add(v, (*path, k)) for k, v in value.items()}}
        return {"pairs": self._pairs(value.items(), path)}

    def _pairs(self, items: Iterable[tuple[Any, Any]], path: tuple[str, ...]) -> list[Any]:
        return [[self.add(k, path), self.add(v, (*path, str(k)))] for k, v in items]

    def _instance(self, value: Any, path: tuple[str, ...]) -> Any:
        """In an instance each tensor counts once: `ModelOutput`, say, holds one as an item and as an attribute."""
        if self._seen is not None:
            return self._reduce(value, path)
        self._seen = {}
        try:
            return self._reduce(value, path)
        finally:
            self._seen = None

    def _reduce(self, value: Any, path: tuple[str, ...]) -> Any:
        kind = type(value)
        if isinstance(value, torch.nn.Module):
            raise NotRebuildable(f"a {_name_class(kind)}, which is a module; {_REMEDY}")
        try:
            reduce = copyreg.dispatch_table.get(kind)
            reduced = reduce(value) if reduce is not None else value.__reduce_ex__(4)
        except Exception as error:
            raise NotRebuildable(f"a {_name_class(kind)} ({error}); {_REMEDY}") from error
        if isinstance(reduced, str):
            return {"singleton": self._name(value, reduced)}
        make: Any
        make, args, state, items, pairs = [*reduced, None, None, None][:5]  # type: ignore[misc]
        self._kept.append(reduced)
        described: dict[str, Any] = {"make": "call"}
        named: dict[str, Any] = {}
        if make is copyreg.__newobj__:  # type: ignore[attr-defined]
            described["make"], (make, *args) = "new", args
        elif make is copyreg.__newobj_ex__:  # type: ignore[attr-defined]
            described["make"], (make, args, named) = "new", args
        if kind in (set, frozenset):
            args = [sorted(value, key=repr)]
        described["of"] = self._name(make)
        described["args"] = [self.add(a, (*path, str(i))) for i, a in enumerate(args)]
        if named:
            described["kwargs"] = {k: self.add(v, (*path, k)) for k, v in named.items()}
        if state is not None:
            described["state"] = self._state(state, path)
        if items is not None and (several := list(items)):
            described["items"] = [self.add(v, (*path, str(i))) for i, v in enumerate(several)]
        if pairs is not None and (several := list(pairs)):
            described["pairs"] = self._pairs(several, path)
        return {"object": described}

    def _state(self, state: Any, path: tuple[str, ...]) -> Any:
        """An instance's `__dict__` is no object of its own that something else may hold."""
        if type(state) is dict:
            return self._dict(state, path)
        if type(state) is tuple:
            return {"tuple": [self._state(part, path) for part in state]}
        return self.add(state, path)

    def _name(self, thing: Any, said: str = "") -> str:
        name = f"{getattr(thing, '__module__', '')}:{said or getattr(thing, '__qualname__', repr(thing))}"
        unique_name, number = name, 1
        while self.names.setdefault(unique_name, thing) is not thing:  # two lambdas, say
            number += 1
            unique_name = f"{name}#{number}"
        return unique_name


class Builder:
    """Values put together from descriptions, in the order in which they were taken apart.

    `objects`: the mutable ones so far, by number; those that are known come first.
    """

    def __init__(
        self, leaves: Sequence[Any], names: Mapping[str, Any], objects: Iterable[Any] = (),
        skipped: Mapping[int, Any] | None = None,
    ) -> None:  # fmt: skip
        """`skipped`: the unused tensors, as `Parts` has them."""
        self.leaves, self.names, self.objects = leaves, names, list(objects)
        self._skipped = skipped or {}

    def build(self, tree: Any) -> Any:
        if isinstance(tree, int):
            return self.leaves[tree]
        if isinstance(tree, list):
            return self._keep([], tree)
        (tag, content), *_ = tree.items()
        if tag == "tuple":
            return tuple(self.build(t) for t in content)
        if tag in ("dict", "pairs"):
            return self._keep({}, tree)
        if tag == "object":
            return self._object(content)
        if tag == "ref":
            return self.objects[content]
        if tag == "unused":
            return self._skipped[content]
        if tag == "singleton":
            self.objects.append(self.names[content])
        return self.names[content] if tag in ("global", "singleton") else _unplain(tag, content)

    def refill(self, thing: Any, tree: Any) -> None:
        """Give a mutable object other contents, in place."""
        if isinstance(tree, list):
            thing[:] = [self.build(t) for t in tree]
        elif "object" in tree:
            if hasattr(thing, "__dict__"):
                vars(thing).clear()
            args, _ = self._arguments(tree["object"])  # they have numbers, too
            if isinstance(thing, dict | list | set | deque):
                thing.clear()
            if isinstance(thing, set):
                thing.update(*args)
            self._fill(thing, tree["object"])
        else:
            items = self._items(tree)
            thing.clear()
            thing.update(items)

    def _keep(self, empty: Any, tree: Any) -> Any:
        self.objects.append(empty)
        self.refill(empty, tree)
        return empty

    def _items(self, tree: Any) -> dict[Any, Any]:
        if "dict" in tree:
            return {k: self.build(t) for k, t in tree["dict"].items()}
        return {self.build(k): self.build(v) for k, v in tree["pairs"]}

    def _object(self, described: Any) -> Any:
        number = len(self.objects)
        self.objects.append(None)
        make = self.names[described["of"]]
        args, kwargs = self._arguments(described)
        instance = (
            make.__new__(make, *args, **kwargs) if described["make"] == "new" else make(*args, **kwargs)
        )
        self.objects[number] = instance
        self._fill(instance, described)
        return instance

    def _arguments(self, described: Any) -> tuple[list[Any], dict[str, Any]]:
        args = [self.build(a) for a in described["args"]]
        return args, {k: self.build(a) for k, a in described.get("kwargs", {}).items()}

    def _fill(self, thing: Any, described: Any) -> None:
        if "state" in described:
            self._set_state(thing, self._unstate(described["state"]))
        for tree in described.get("items", ()):
            thing.append(self.build(tree))
        for key, tree in described.get("pairs", ()):
            thing[self.build(key)] = self.build(tree)

    def _unstate(self, tree: Any) -> Any:
        """See `Parts._state`."""
        if isinstance(tree, dict) and ("dict" in tree or "pairs" in tree):
            return self._items(tree)
        if isinstance(tree, dict) and "tuple" in tree:
            return tuple(self._unstate(t) for t in tree["tuple"])
        return self.build(tree)

    @staticmethod
    def _set_state(thing: Any, state: Any) -> None:
        if hasattr(thing, "__setstate__"):
            thing.__setstate__(state)
            return
        plain, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
        if plain:
            vars(thing).update(plain)
        for name, value in (slots or {}).items():
            setattr(thing, name, value)


def take_apart(value: Any) -> tuple[Any, Parts]:
    """The description of one value, and its parts. Raises NotRebuildable."""
    parts = Parts()
    return parts.add(value), parts


def put_together(tree: Any, leaves: Sequence[Any], names: Mapping[str, Any]) -> Any:
    """The value that a description and its tensors stand for."""
    return Builder(leaves, names).build(tree)


def list_held(tree: Any) -> list[int]:
    """List the numbers of the tensors that instances hold, and not the call itself, or its lists and dicts."""
    return [number for tag, number, inside in _list_tensors(tree) if tag == "leaf" and inside]


def list_unused(tree: Any) -> list[int]:
    """List the places of the unused tensors of a description."""
    return [number for tag, number, _ in _list_tensors(tree) if tag == "unused"]


def _list_tensors(tree: Any, inside: bool = False) -> Iterator[tuple[str, int, bool]]:
    """Yield ("leaf", number) or ("unused", number) of each tensor of a description, and whether an instance holds it."""
    if isinstance(tree, int):
        yield "leaf", tree, inside
    elif isinstance(tree, list):
        for part in tree:
            yield from _list_tensors(part, inside)
    else:
        (tag, content), *_ = tree.items()
        if tag == "unused":
            yield "unused", content, inside
        elif tag in ("tuple", "pairs"):
            yield from _list_tensors(content, inside)
        elif tag == "dict":
            yield from _list_tensors(list(content.values()), inside)
        elif tag == "object":
            kwargs, state = list(content.get("kwargs", {}).values()), content.get("state", [])
            yield from _list_tensors(
                [content["args"], kwargs, content.get("items", []), content.get("pairs", []), state], True
            )


def same(tree: Any, other: Any) -> bool:
    """Return whether two descriptions are equal; True, 1 and 1.0 are three values, 0.0 and -0.0 two, and the order of a dict counts."""
    return _is_quickly_same(tree, other) or json.dumps(tree) == json.dumps(other)


def _is_quickly_same(tree: Any, other: Any) -> bool:
    """Return True only for equal descriptions; it takes less time than their texts, as calls of a layer are compared. A tuple and a list of the same
    are one description, and are told by their texts.
    """
    kind = type(tree)
    if kind is not type(other):
        return False
    if kind is dict:
        return list(tree) == list(other) and all(map(_is_quickly_same, tree.values(), other.values()))
    if kind is list:
        return len(tree) == len(other) and all(map(_is_quickly_same, tree, other))
    return repr(tree) == repr(other) if kind is float else bool(tree == other)


def attribute(module: torch.nn.Module, path: str, name: str) -> Any:
    """The value of an attribute of a submodule; None where there is none."""
    return vars(module.get_submodule(path)).get(name)


def form(module: torch.nn.Module, path: str, name: str) -> Any:
    """A description of an attribute that is equal for values that differ in the elements of tensors alone; None where there is
    none. Raises NotRebuildable.
    """
    if name not in vars(module.get_submodule(path)):
        return None
    tree, parts = take_apart(attribute(module, path, name))
    return [tree, [[str(t.dtype), list(t.shape)] for t in parts.leaves]]


def _plain(value: Any) -> Any:
    """The description of what holds nothing else; None for other values."""
    kind = type(value)
    if value is None or kind in (bool, int, str) or (kind is float and math.isfinite(value)):
        return {"const": value}
    if kind is float:
        return {"float": repr(value)}
    if kind is bytes:
        return {"bytes": base64.b64encode(value).decode()}
    if kind is torch.device:
        return {"device": str(value)}
    tag = _TORCH.get(kind)
    return {tag: str(value).removeprefix("torch.")} if tag else None


def _unplain(tag: str, content: Any) -> Any:
    if tag == "const":
        return content
    if tag == "float":
        return float(content)
    if tag == "bytes":
        return base64.b64decode(content)
    return torch.device(content) if tag == "device" else getattr(torch, content)


def _name_class(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"

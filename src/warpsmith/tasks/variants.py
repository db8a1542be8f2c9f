"""Other shapes of a task: those its file declares, else ones tried on its own constants.

In: the file's syntax tree, its main variant, a host to export with. Out: variants that run the same ops
with the same options at other sizes, never larger than the main one. A file declares its own as `VARIANTS =
{"ragged": {"batch_size": 7}}`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ..errors import TaskError
from ..records import Graph, Node, Variant
from .client import TaskHost
from .source import constants, names_read_by

# Constants that are options of an op, not sizes, in the vocabulary of KernelBench's files.
_OPTION = re.compile(
    r"kernel|stride|pad|dilat|group|head|factor|scal|pool|layers|eps|seed|ratio|value|divis|iter", re.I
)
# Positions of the arguments that are sizes; every other number is an option, which generated code may hold.
_SIZE_ARGUMENTS = {
    "view": (1,), "_unsafe_view": (1,), "reshape": (1,), "expand": (1,), "full": (0,), "new_full": (1,),
    "zeros": (0,), "ones": (0,), "empty": (0,), "arange": (0, 1), "native_group_norm": (3, 4, 5),
    "native_layer_norm": (1,), "repeat": (1,),
}  # fmt: skip
_GROUPS = 8  # position of a convolution's number of groups
_LARGE_SHAPE_BYTES = 8 << 20  # bytes of a main shape above which its variants are made smaller
_CAPS = ((1031,), (1031, 61), (257, 61, 31), (67, 31, 29, 17), (37, 19, 17, 13, 11))
_EXPORTED = 1600  # nodes exported for other shapes at the most: each takes 10 to 20 ms
_LEAST = 5  # smaller integers are axes, kernels, strides
_Slot = tuple[str, int | None]  # a constant's name, and the entry when it is a tuple


def read_declared_variants(host: TaskHost, tree: ast.Module, main: Variant) -> tuple[Variant, ...] | None:
    """Read the variants that the file's VARIANTS asks for.

    None when it has none. Raises TaskError when one cannot be the same task.
    """
    path = host.source.path
    if not any(_assigns(statement, "VARIANTS") for statement in tree.body):
        return None
    declared = constants(tree).get("VARIANTS")
    if not isinstance(declared, dict) or not all(isinstance(v, dict) for v in declared.values()):
        raise TaskError(f'{path}: VARIANTS must be a literal dict such as {{"ragged": {{"batch_size": 7}}}}')
    variants = []
    for name, changes in declared.items():
        overrides = {**main.overrides, **changes}
        try:
            graph = host.export(overrides)
        except TaskError as error:
            raise TaskError(f"variant {name!r} of {error}") from error
        difference = op_difference(main.graph, graph)
        if difference:
            raise TaskError(f"{path}: variant {name!r} is another task: {difference}")
        variants.append(Variant(name=str(name), overrides=overrides, graph=graph))
    return tuple(variants)


def derive_variants(host: TaskHost, tree: ast.Module, main: Variant) -> tuple[tuple[Variant, ...], str]:
    """Up to two, "ragged" (primes) and "small" (powers of two), and a note on why there are none."""
    values = {**constants(tree), **main.overrides}
    attempts = _attempts(tree, values)
    if not attempts:
        return (), "no other shapes: the file has no module-level integer sizes"
    divisor = 4 if main.graph.least_bytes > _LARGE_SHAPE_BYTES else 1
    nodes_left = _EXPORTED // max(
        1, len(main.graph.nodes)
    )  # a count, not a clock: a task is the same each time
    if nodes_left < len(attempts):
        attempts = attempts[::-1]  # the batch alone comes first: it is the likeliest to work
    variants: list[Variant] = []
    reason = "" if nodes_left else "the graph is too large to export again"
    for name, shrink in (("ragged", _make_ragged), ("small", _power_of_two)):
        for slots, alike in attempts:
            overrides = {**main.overrides, **_shrunk(values, slots, alike, partial(shrink, divisor=divisor))}
            if any(overrides == v.overrides for v in (main, *variants)):
                continue
            if not nodes_left:
                break
            nodes_left -= 1
            graph, why = _same_task(host, overrides, main.graph)
            if graph is not None:
                variants.append(Variant(name=name, overrides=overrides, graph=graph))
                attempts = [(slots, alike)]  # what worked once is tried first and only
                break
            reason = reason or why
    return tuple(variants), "" if variants else f"no other shapes: {reason}"


def _attempts(tree: ast.Module, known: dict[str, Any]) -> list[tuple[tuple[_Slot, ...], bool]]:
    """Sets of sizes to change together, the widest first; with True, equal sizes stay equal."""
    of_inputs, of_module = names_read_by(tree, ("get_inputs",)), names_read_by(tree, ("get_init_inputs",))
    slots = [
        slot for name, value in known.items() if name in of_inputs | of_module for slot in _slots(name, value)
    ]
    plain = tuple(s for s in slots if s[1] is None)
    free = tuple(s for s in slots if s[0] in of_inputs and s[0] not in of_module)
    batch = tuple(s for s in slots if s[0] in of_inputs)[:1]
    tries = [
        (plain, False),
        (tuple(slots), True),
        (free, False),
        (free, True),
        (free[:1], False),
        (batch, False),
    ]
    return list(dict.fromkeys(t for t in tries if t[0]))


def _slots(name: str, value: Any) -> list[_Slot]:
    """The sizes in a constant: itself, or entries of a tuple such as (64, 1, 1)."""
    if _OPTION.search(name) or name.startswith("_"):
        return []
    if isinstance(value, tuple | list):
        return [(name, i) for i, v in enumerate(value) if type(v) is int and v >= _LEAST]
    return [(name, None)] if type(value) is int and value >= _LEAST else []


def _shrunk(
    known: dict[str, Any], slots: tuple[_Slot, ...], alike: bool, shrink: Callable[[list[int]], list[int]]
) -> dict[str, Any]:
    values = [known[name] if i is None else known[name][i] for name, i in slots]
    if alike:
        distinct = list(dict.fromkeys(values))
        smaller = dict(zip(distinct, shrink(distinct), strict=True))
        replacements = [smaller[v] for v in values]
    else:
        replacements = shrink(values)
    changed: dict[str, Any] = {}
    for (name, i), value in zip(slots, replacements, strict=True):
        if i is None:
            changed[name] = value
        else:
            entries = list(changed.get(name, known[name]))
            entries[i] = value
            changed[name] = type(known[name])(entries)
    return changed


def _same_task(host: TaskHost, overrides: dict[str, Any], main: Graph) -> tuple[Graph | None, str]:
    if not host.worker.alive:
        return None, "the task's process ended"
    try:
        graph = host.export(overrides)
    except TaskError as error:
        return None, str(error)
    if graph.least_bytes > main.least_bytes:
        return None, "they would be larger than the main shape"
    difference = op_difference(main, graph)
    return (None, difference) if difference else (graph, "")


def op_difference(main: Graph, other: Graph) -> str:
    """Why generated code for one graph cannot serve the other at its sizes; empty when it can."""
    if [(i.name, i.role, i.spec.dtype, len(i.spec.shape)) for i in main.inputs] != [
        (i.name, i.role, i.spec.dtype, len(i.spec.shape)) for i in other.inputs
    ]:
        return "it takes other inputs"
    if len(main.nodes) != len(other.nodes):
        return f"it runs {len(other.nodes)} ops where the main shape runs {len(main.nodes)}"
    for a, b in zip(main.nodes, other.nodes, strict=True):
        if (a.name, a.op) != (b.name, b.op):
            return f"it runs {b.op} where the main shape runs {a.op}"
        if _options(a, main) != _options(b, other):
            return f"{b.op} ({b.where}) has other options than at the main shape"
    if (main.outputs, main.tree) != (other.outputs, other.tree):
        return "it returns something else"
    return ""


def _options(node: Node, graph: Graph) -> Any:
    sizes = (_GROUPS,) if _depthwise(node, graph) else _SIZE_ARGUMENTS.get(node.op.split(".")[1], ())
    return [a for i, a in enumerate(node.args) if i not in sizes], node.kwargs


def _depthwise(node: Node, graph: Graph) -> bool:
    """Return whether each channel is a group of its own, so that their number is a size and no option."""
    if node.op != "aten.convolution.default":
        return False
    channels = graph.specs[node.args[0]["v"]].shape[1]
    return bool(channels > 1 and node.args[_GROUPS] == channels)


def _assigns(statement: ast.stmt, name: str) -> bool:
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    return any(isinstance(t, ast.Name) and t.id == name for t in targets)


def _make_ragged(values: list[int], divisor: int) -> list[int]:
    """Primes; the largest size stays largest, to outlive vectors and blocks and leave a remainder."""
    return [_prime_below(min(max(v // divisor, min(v, 14)), cap + 1)) for v, cap in _cap_values(values)]


def _power_of_two(values: list[int], divisor: int) -> list[int]:
    return [1 << max(min(v // max(divisor, 2), cap).bit_length() - 1, 1) for v, cap in _cap_values(values)]


def _cap_values(values: list[int]) -> Iterator[tuple[int, int]]:
    """Each value with its cap: the largest value gets the largest cap."""
    caps = _CAPS[min(len(values), len(_CAPS)) - 1]
    order = sorted(range(len(values)), key=lambda i: -values[i])
    rank = {index: position for position, index in enumerate(order)}
    return ((v, caps[min(rank[i], len(caps) - 1)]) for i, v in enumerate(values))


def _prime_below(limit: int) -> int:
    """The largest prime below `limit`; 3 at least."""
    return next((n for n in range(limit - 1, 3, -1) if all(n % d for d in range(2, int(n**0.5) + 1))), 3)

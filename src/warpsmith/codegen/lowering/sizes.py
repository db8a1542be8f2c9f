"""The length of each axis as C++ in terms of `task.h`, which alone knows a variant's shapes.

In: the operands of a region and the axes' sizes at the main variant. Out: an expression an axis: a dimension of
an operand; the quotient of a dimension and its other factors; or, where shapes leave a choice, a number that it is
at the main variant (of groups, of heads), which the unit then requires.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..program import Operand, Unsupported


def axis_sizes(
    operands: Sequence[Operand], sizes: Sequence[int], literals: Collection[int]
) -> tuple[str, ...]:
    """`literals`: axes to be constants first where shapes leave a choice. Raises Unsupported."""
    axis_sizes_by_axis = _whole(operands)
    while True:
        _quotients(operands, axis_sizes_by_axis)
        open_axes = {a for o in operands for a in o.axes if a is not None and a not in axis_sizes_by_axis}
        if not open_axes:
            break
        literal_axes = sorted(open_axes & set(literals))
        for axis in (
            literal_axes[:1] or open_axes
        ):  # where nothing says which size follows from which, all are required
            axis_sizes_by_axis[axis] = str(sizes[axis])
    missing = [a for a in range(len(sizes)) if a not in axis_sizes_by_axis]
    if any(sizes[a] != 1 for a in missing):
        raise Unsupported("an axis that neither an input nor an output has")
    return tuple(axis_sizes_by_axis.get(a, "1") for a in range(len(sizes)))


def entries(operand: Operand) -> dict[int, list[int]]:
    """Dimension of the value → positions in the operand's axes, outer to inner."""
    dim_axes: dict[int, list[int]] = {}
    for position in range(len(operand.axes)):
        dim_axes.setdefault(operand.dims[position] if operand.dims else position, []).append(position)
    return dim_axes


def _whole(operands: Sequence[Operand]) -> dict[int, str]:
    """Axes that are dimensions as they stand: of the operand that is longest there (the others may broadcast)."""
    best: dict[int, tuple[int, str]] = {}
    for o in operands:
        for dim, axes in entries(o).items():
            axis = o.axes[axes[0]]
            if len(axes) == 1 and axis is not None and (axis not in best or o.shape[axes[0]] > best[axis][0]):
                best[axis] = o.shape[axes[0]], f"{o.name}_shape[{dim}]"
    return {axis: text for axis, (_, text) in best.items()}


def _quotients(operands: Sequence[Operand], known: dict[int, str]) -> None:
    """Adds axes that are the only unknown factor of some dimension, as long as there are any."""
    progress = True
    while progress:
        progress = False
        for o in operands:
            for dim, dim_axes in entries(o).items():
                axes = [o.axes[p] for p in dim_axes]
                unknown = [a for a in axes if a is not None and a not in known]
                if len(unknown) == 1:
                    known_sizes = [known[a] for a in axes if a is not None and a in known]
                    known[unknown[0]] = _divide(f"{o.name}_shape[{dim}]", known_sizes)
                    progress = True


def _divide(whole: str, by: Sequence[str]) -> str:
    if not by:
        return whole
    product = " * ".join(by)
    if all(b.isdigit() for b in by):
        return f"({whole} / {product})" if len(by) == 1 else f"({whole} / ({product}))"
    return f"({product} == 0 ? 0 : {whole} / ({product}))"

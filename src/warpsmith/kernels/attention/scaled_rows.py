"""Keys or values that are stored in 8 bits with a scale for each row: `cache.to(dtype) * scale`, the scale (…, keys, 1).

In: a graph and the operand of an attention. Out: the nodes that widen and scale, and both tensors. A kernel that reads the cache as it is stored moves half the bytes, and
saves a pass that writes it in half precision.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...codegen.lowering.axis_relations import base_name
from ...records import Graph

NARROW = ("int8", "float8_e4m3fn", "float8_e5m2")


@dataclass(frozen=True)
class ScaledRows:
    nodes: tuple[str, ...]  # that widen and scale, in order
    stored: str
    scale: str


def find_scaled_rows(graph: Graph, value: str) -> ScaledRows | None:
    """Tell what an operand is widened and scaled from; None where it is not, or where others read what is made."""
    node, spec = graph.producer.get(value), graph.specs[value]
    if node is None or base_name(node) != "mul" or len(node.uses) != 2 or not graph.is_read_once(value):
        return None
    for wide, scale in (node.uses, node.uses[::-1]):
        widening, scales = graph.producer.get(wide), graph.specs[scale]
        if widening is None or base_name(widening) != "_to_copy" or not graph.is_read_once(wide):
            continue
        stored = widening.uses[0]
        sizes = zip(scales.shape[:-1], spec.shape[:-1], strict=False)
        if (
            graph.specs[stored].dtype in NARROW
            and graph.specs[stored].stride[-1] == 1
            and graph.specs[wide].dtype == scales.dtype == spec.dtype
            and len(scales.shape) == len(spec.shape)
            and scales.shape[-1] == 1
            and all(n in (1, whole) for n, whole in sizes)
        ):
            return ScaledRows((widening.name, node.name), stored, scale)
    return None

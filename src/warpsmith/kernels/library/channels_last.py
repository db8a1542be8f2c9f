"""Convolutions and what is around them in channels-last, the layout that tensor cores' convolutions want.

A region's images, and weights of more than one tap, are brought into channels-last as it begins, and its outputs into the graph's layout as it
ends. In half precision the library would else do that around each convolution. A graph that is in channels-last already has no such region.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from ...codegen.lowering.op_builder import HALF_TYPES
from ...codegen.rewrites.rewriting import rename_argument
from ...facts import Facts
from ...records import Graph, Node, Region, TensorSpec, Value
from ..costs import aten_us, floor_us
from .alternative import PREFIX
from .layout_components import IMAGE_RANK, follows_layout, is_convolution, list_layout_components

CLONE = "aten.clone.default"


class ChannelsLast:
    technique = f"{PREFIX}channels-last"
    why = "images in channels-last, which the library's half-precision convolutions want: converted once for all of them"

    def cut(self, graph: Graph) -> list[list[str]]:
        return list_layout_components(graph)

    def matches(self, graph: Graph, region: Region) -> bool:
        nodes = [graph.by_name[name] for name in region.nodes]
        convolves = any(is_convolution(graph, node) for node in nodes)
        return convolves and all(follows_layout(graph, node) for node in nodes)

    def write(self, graph: Graph, region: Region) -> list[Node]:
        stem = _find_stem(graph, region)
        names = {v: f"{stem}{i}" for i, v in enumerate(region.inputs) if _is_converted(graph.specs[v])}
        names |= {v: f"{stem}out{i}" for i, v in enumerate(region.outputs)}
        before = [_convert(graph, v, v, names[v]) for v in region.inputs if v in names]
        nodes = [_move(graph.by_name[name], names) for name in region.nodes]
        after = [_restore(graph, names[v], v) for v in region.outputs]
        return [*before, *nodes, *after]

    def predict_us(self, graph: Graph, region: Region, facts: Facts) -> float:
        """Predict the nodes as measured, less what the library's own conversions move, and the region's conversions."""
        nodes = [graph.by_name[name] for name in region.nodes]
        converted = [v for v in region.inputs if _is_converted(graph.specs[v])]
        moved = 2 * sum(graph.specs[v].nbytes for v in (*converted, *region.outputs))
        spared = sum(_count_converted_bytes(graph, n) for n in nodes if is_convolution(graph, n))
        calls = facts.hardware.aten_call_us * (len(converted) + len(region.outputs))
        us = aten_us(graph, region, facts) + calls + (moved - spared) / facts.bandwidth * 1e6
        return max(us, floor_us(graph, region, facts))


def _count_converted_bytes(graph: Graph, node: Node) -> int:
    """Count what the library moves to bring the operands of a contiguous convolution into channels-last and its result back."""
    if node.output.spec.dtype not in HALF_TYPES or node.args[8] != 1:
        return 0
    values = (node.args[0]["v"], node.args[1]["v"], node.output.name)
    return 2 * sum(graph.specs[v].nbytes for v in values)


def _is_converted(spec: TensorSpec) -> bool:
    """Tell whether the layouts of an image differ and it is in the other one."""
    if len(spec.shape) != IMAGE_RANK:
        return False
    differ = spec.shape[1] > 1 and prod(spec.shape[2:]) > 1
    return differ and spec.stride != _channels_last(spec).stride


def _channels_last(spec: TensorSpec) -> TensorSpec:
    _, channels, height, width = spec.shape
    return spec.model_copy(update={"stride": (channels * height * width, 1, width * channels, channels)})


def _find_stem(graph: Graph, region: Region) -> str:
    stem = f"{region.nodes[-1]}_layout"
    while any(name.startswith(stem) for name in (*graph.specs, *graph.by_name)):
        stem += "_"
    return stem


def _convert(graph: Graph, value: str, source: str, name: str) -> Node:
    spec = _channels_last(graph.specs[value])
    return _clone(source, Value(name=name, spec=spec), "channels_last")


def _restore(graph: Graph, source: str, value: str) -> Node:
    return _clone(source, Value(name=value, spec=graph.specs[value]), "contiguous_format")


def _clone(source: str, value: Value, layout: str) -> Node:
    kwargs: dict[str, Any] = {"memory_format": {"memory_format": layout}}
    return Node(name=value.name, op=CLONE, args=({"v": source},), kwargs=kwargs, outputs=(value,))


def _move(node: Node, names: Mapping[str, str]) -> Node:
    """The node on values of other names, its own result in channels-last."""
    value = node.output
    result = Value(name=names.get(value.name, value.name), spec=_channels_last(value.spec))
    update = {"args": rename_argument(node.args, names), "outputs": (result, *node.outputs[1:])}
    return node.model_copy(update={**update, "name": result.name})

"""Attention on a GPU: the library's node for it, where the library is far from the limit.

In: `scaled_dot_product_attention` of queries, keys and values, any strides. Out: one unit for the node alone. Few queries of a head, as a
model decodes: the technique `split-kv` (`split_kv`), in every float type, with masks and shared heads of keys. Many: `materialized-scores-3xfp16`
(`materialized_scores`), which declines masks, causal ones too, dropout, heads of queries that share one of keys, types other than float32, heads
of few features or keys, and other architectures than the one that has the instructions.
Attention that a graph spells out falls to the families of its products and its softmax.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from math import prod

from ....codegen.lowering.axis_relations import base_name
from ....codegen.lowering.op_builder import literal, option
from ....codegen.program import Unsupported, operand_names
from ....facts import Facts
from ....hardware import Hardware
from ....records import Graph, Node, Region, Unit
from ...costs import region_bytes
from ...cuda_anchored import CudaAnchored
from ...cuda_unit import cuda_unit, is_streamed
from ...family import Technique, tunable
from ...gemm.cuda.cuda_matmul import WGMMA_ARCH
from ...gemm.schedules.gemm_3xfp16_schedule import DRAM_SHARE, build_3xfp16_technique
from ..attention_pattern import LIBRARY, attention_at
from ..attention_rewrites import Attention
from ..schedules.attention_schedule import MaterializedScoresSchedule
from ..schedules.split_kv_schedule import SplitKvSchedule
from .materialized_scores import Heads, attention_body
from .split_kv import count_rows, fits_split_kv, write_split_kv

SPLIT_KV = "split-kv"


class CudaAttention(CudaAnchored):
    name = "attention"

    def covers(self, graph: Graph, node: Node) -> bool:
        return base_name(node) == LIBRARY

    def supports(self, graph: Graph, node: Node) -> bool:
        return _read_few_queries(graph, node) is not None or _plain(graph, node) is not None

    def cut(self, graph: Graph, node: Node, taken: Collection[str], fuse: bool) -> Region | None:
        """The node alone: what follows it turns its dimensions, mostly, and other operands may have no heads."""
        return super().cut(graph, node, taken, False)

    def techniques(self, graph: Graph, region: Region, facts: Facts) -> list[Technique]:
        decoding = self._find_attention(graph, region, _read_few_queries)
        if decoding is not None:
            return [_offer_split_kv(graph, region, decoding, facts.hardware)]
        attention = self._find_attention(graph, region, _plain)
        if attention is None or facts.arch not in ("", WGMMA_ARCH):
            return []
        hardware = facts.hardware
        *heads, rows, depth = graph.specs[attention.query].shape
        columns, wide = attention.raw[-1], attention.final.output.spec.shape[-1]
        moved = region_bytes(graph, region)
        stream = tunable("NT", int(is_streamed(graph, region, hardware)))
        keys = build_3xfp16_technique(hardware, prod(heads), rows, columns, depth, moved, 1.0, stream)
        values = build_3xfp16_technique(hardware, prod(heads), rows, wide, columns, moved, 1.0, stream)
        if keys is None or values is None:
            return []
        passes = hardware.dram_us(
            3 * 4.0 * prod(attention.raw), DRAM_SHARE
        )  # over the scores, beyond those of products
        tunables = (
            *MaterializedScoresSchedule(blocks=hardware.sm_count).tunables(heads=(16, 128, 32)), stream,
        )  # fmt: skip
        why = "both products by warpgroup from scaled halves, weights made as the second one's are split: as exact as float32"
        return [
            Technique(
                "materialized-scores-3xfp16",
                why,
                "compute",
                tunables,
                us=(keys.us or 0) + (values.us or 0) + passes,
            )
        ]

    def write(self, graph: Graph, region: Region, technique: Technique) -> Unit:
        """Raises Unsupported."""
        if technique.name == SPLIT_KV:
            decoding = self._find_attention(graph, region, _read_few_queries)
            if decoding is None:
                raise Unsupported("not an attention of few queries")
            return cuda_unit(write_split_kv(graph, region, decoding), region, technique, self.name)
        attention = self._find_attention(graph, region, _plain)
        if attention is None:
            raise Unsupported("not an attention that is the library's alone")
        names = operand_names(region)
        scale = option(attention.final, 6, "scale", None)
        heads = Heads(
            names[attention.query], names[attention.key], names[attention.value], names[attention.final.output.name],
            len(attention.shape), "(float)(1.0 / sqrt((double)WIDTH))" if scale is None else literal(float(scale)),
        )  # fmt: skip
        body = attention_body(graph, region, attention.final.output.name, heads)
        return cuda_unit(body, region, technique, self.name)

    def _find_attention(
        self, graph: Graph, region: Region, read: Callable[[Graph, Node], Attention | None]
    ) -> Attention | None:
        anchor = self.anchor(graph, region)
        return read(graph, anchor.node) if anchor is not None and not anchor.after else None


def _offer_split_kv(graph: Graph, region: Region, attention: Attention, hardware: Hardware) -> Technique:
    *heads, keys, _ = graph.specs[attention.key].shape
    rows = count_rows(graph, attention)
    schedule = SplitKvSchedule.choose(hardware, prod(heads), keys, rows)
    return Technique(
        SPLIT_KV,
        "few queries read all keys once: blocks share the keys of a head, and their sums are added up",
        "memory",
        schedule.tunables(**schedule.neighbours(rows)),
        us=hardware.dram_us(region_bytes(graph, region), DRAM_SHARE)
        + hardware.kernel_launch_us * (schedule.split > 1),
    )


def _read_few_queries(graph: Graph, node: Node) -> Attention | None:
    """An attention whose queries of a head of keys are few."""
    attention = attention_at(graph, node)
    return attention if attention is not None and fits_split_kv(graph, attention) else None


def _plain(graph: Graph, node: Node) -> Attention | None:
    """Without a mask, of float32, each head with keys and values of its own."""
    attention = attention_at(graph, node)
    if attention is None or attention.mask or attention.limit is not None or attention.grouped:
        return None
    dtypes = {graph.specs[v].dtype for v in (*node.uses, node.output.name)}
    return attention if dtypes == {"float32"} else None

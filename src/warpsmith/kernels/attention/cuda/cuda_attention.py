"""Attention on a GPU: few queries at the speed of memory, many in half precision on tensor cores, float32 where the library is far from the limit.

In: `scaled_dot_product_attention` of queries, keys and values, any strides; in half precision also attention that a graph spells out. Few queries of a
head, as a model decodes: the techniques `split-kv-mma` (fp16 and bf16) and `split-kv` (every float type; both in `split_kv`), for the library's node alone. Many of fp16 or bf16:
`flash-wgmma` on Hopper and `flash-mma` (both in `flash_attention`), with masks, diagonals, windows and shared heads of keys. Many of float32: `materialized-scores-3xfp16`
(`materialized_scores`), which declines masks, causal ones too, heads of queries that share one of keys, heads of few features or keys, and other
architectures than the one that has the instructions; float32 attention that a graph spells out falls to the families of its products and its softmax.
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
from ...anchored import Core
from ...costs import region_bytes
from ...cuda_anchored import CudaAnchored
from ...cuda_unit import cuda_unit, is_streamed
from ...family import Technique, tunable
from ...gemm.cuda.cuda_matmul import WGMMA_ARCH
from ...gemm.schedules.gemm_3xfp16_schedule import DRAM_SHARE, build_3xfp16_technique
from ..attention_pattern import LIBRARY, attention_at
from ..attention_rewrites import Attention
from ..schedules.attention_schedule import MaterializedScoresSchedule
from ..schedules.flash_mma_schedule import AttentionSizes, FlashMmaSchedule
from ..schedules.flash_wgmma_schedule import FlashWgmmaSchedule
from ..schedules.split_kv_schedule import SplitKvMmaSchedule, SplitKvSchedule
from .flash_attention import (
    cut_flash,
    find_flash_attention,
    fits_wgmma,
    flash_attention_at,
    list_weight_parts,
    write_flash,
)
from .kv_rows import find_row_nodes
from .materialized_scores import Heads, attention_body
from .split_kv import (
    count_rows,
    find_mask_nodes,
    fits_split_kv,
    fits_split_kv_mma,
    write_split_kv,
)

SPLIT_KV = "split-kv"
SPLIT_KV_MMA = "split-kv-mma"
FLASH_MMA = "flash-mma"
FLASH_WGMMA = "flash-wgmma"
LEAST_ARCH = 80  # that has mma.sync of bf16, and cp.async


class CudaAttention(CudaAnchored):
    name = "attention"

    def covers(self, graph: Graph, node: Node) -> bool:
        return base_name(node) == LIBRARY or flash_attention_at(graph, node) is not None

    def supports(self, graph: Graph, node: Node) -> bool:
        return self._takes_node_alone(graph, node) or flash_attention_at(graph, node) is not None

    def cut(self, graph: Graph, node: Node, taken: Collection[str], fuse: bool) -> Region | None:
        """In float32 and for few queries the node alone: what follows it turns its dimensions, mostly, and other operands may have no
        heads."""
        if self._takes_node_alone(graph, node):
            return super().cut(graph, node, taken, False)
        attention = flash_attention_at(graph, node)
        return None if attention is None else cut_flash(graph, attention, set(taken), fuse)

    def core(self, graph: Graph, node: Node, within: Collection[str]) -> Core:
        """Few queries: what collects the pages of a cache, or joins it with what a step adds, and what makes a mask of lengths is the kernel's own."""
        core = super().core(graph, node, within)
        decoding = _read_few_queries(graph, node) if base_name(node) == LIBRARY else None
        if decoding is None:
            return core
        sources = [find_mask_nodes(graph, decoding)]
        if fits_split_kv_mma(graph, decoding):
            sources += [find_row_nodes(graph, v) for v in (decoding.key, decoding.value)]
        inner = [n for nodes in sources if set(nodes) <= set(within) for n in nodes]
        return Core((*inner, node.name), core.value, core.reads)

    def techniques(self, graph: Graph, region: Region, facts: Facts) -> list[Technique]:
        decoding = self._find_attention(graph, region, _read_few_queries)
        if decoding is not None and not {decoding.key, decoding.value} <= set(region.inputs):
            # The other kernel knows rows of operands alone.
            return (
                [_offer_split_kv_mma(graph, region, decoding, facts.hardware)] if _has_mma(facts.arch) else []
            )
        if decoding is not None:
            offers = [_offer_split_kv(graph, region, decoding, facts.hardware)]
            if _has_mma(facts.arch) and fits_split_kv_mma(graph, decoding):
                offers.insert(0, _offer_split_kv_mma(graph, region, decoding, facts.hardware))
            return offers
        flash = find_flash_attention(graph, region)
        if flash is not None:
            return _offer_flash(graph, region, flash, facts)
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
        if technique.name in (SPLIT_KV, SPLIT_KV_MMA):
            decoding = self._find_attention(graph, region, _read_few_queries)
            if decoding is None:
                raise Unsupported("not an attention of few queries")
            body = write_split_kv(graph, region, decoding, technique.name == SPLIT_KV_MMA)
            return cuda_unit(body, region, technique, self.name)
        if technique.name in (FLASH_MMA, FLASH_WGMMA):
            flash = find_flash_attention(graph, region)
            if flash is None:
                raise Unsupported("not an attention of many queries in half precision")
            body = write_flash(graph, region, flash, technique.name == FLASH_WGMMA)
            return cuda_unit(body, region, technique, self.name)
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

    def _takes_node_alone(self, graph: Graph, node: Node) -> bool:
        return base_name(node) == LIBRARY and (
            _read_few_queries(graph, node) is not None or _plain(graph, node) is not None
        )

    def _find_attention(
        self, graph: Graph, region: Region, read: Callable[[Graph, Node], Attention | None]
    ) -> Attention | None:
        anchor = self.anchor(graph, region)
        if anchor is None or anchor.after or base_name(anchor.node) != LIBRARY:
            return None
        return read(graph, anchor.node)


def _offer_split_kv(graph: Graph, region: Region, attention: Attention, hardware: Hardware) -> Technique:
    *heads, keys, depth = graph.specs[attention.key].shape
    rows, width = count_rows(graph, attention), graph.specs[attention.value].shape[-1]
    schedule = SplitKvSchedule.choose(hardware, prod(heads), keys, rows)
    moving = hardware.dram_us(region_bytes(graph, region), DRAM_SHARE)
    return Technique(
        SPLIT_KV,
        "few queries read all keys once: blocks share the keys of a head, and their sums are added up",
        "memory",
        schedule.tunables(**schedule.neighbours(rows)),
        us=max(moving, schedule.issue_us(hardware, prod(heads) * keys, rows, depth + width))
        + hardware.kernel_launch_us * (schedule.split > 1),
    )


def _offer_split_kv_mma(graph: Graph, region: Region, attention: Attention, hardware: Hardware) -> Technique:
    *heads, keys, depth = graph.specs[attention.key].shape
    rows, width = count_rows(graph, attention), graph.specs[attention.value].shape[-1]
    schedule = SplitKvMmaSchedule.choose(hardware, prod(heads), keys)
    return Technique(
        SPLIT_KV_MMA,
        "few queries read all keys once, from memory to the registers of tensor cores: blocks share the keys of a head, and their sums are added up",
        "memory",
        schedule.tunables(**schedule.neighbours(rows, max(depth, width))),
        us=hardware.dram_us(region_bytes(graph, region), DRAM_SHARE)
        + hardware.kernel_launch_us * (schedule.split > 1),
    )


def _offer_flash(graph: Graph, region: Region, attention: Attention, facts: Facts) -> list[Technique]:
    offers = [_offer_flash_mma(graph, region, attention, facts.hardware)] if _has_mma(facts.arch) else []
    if facts.arch != WGMMA_ARCH or not fits_wgmma(graph, attention):
        return offers
    sizes = _find_sizes(graph, attention)
    schedule = FlashWgmmaSchedule.choose(facts.hardware, sizes)
    if not schedule.fits(facts.hardware, sizes):
        return offers
    tunables = schedule.tunables(**schedule.neighbours(facts.hardware, sizes))
    us = schedule.us(facts.hardware, sizes, region_bytes(graph, region))
    why = "a warpgroup copies keys and values, the others multiply: a tile's values during the softmax of the next"
    return sorted(
        [Technique(FLASH_WGMMA, why, "compute", tunables, us=us), *offers], key=lambda t: t.us or 0.0
    )


def _find_sizes(graph: Graph, attention: Attention) -> AttentionSizes:
    *heads, rows, keys = attention.raw
    depth, width = graph.specs[attention.query].shape[-1], graph.specs[attention.value].shape[-1]
    parts = list_weight_parts(graph, attention)
    return AttentionSizes(prod(heads), rows, keys, depth, width, attention.limit, attention.floor, parts)


def _offer_flash_mma(graph: Graph, region: Region, attention: Attention, hardware: Hardware) -> Technique:
    sizes = _find_sizes(graph, attention)
    schedule = FlashMmaSchedule.choose(hardware, sizes)
    return Technique(
        FLASH_MMA,
        "queries stay in a block, keys and values stream through shared memory: scores never leave the registers",
        "compute",
        schedule.tunables(**schedule.neighbours(hardware, sizes)),
        us=schedule.us(hardware, sizes, region_bytes(graph, region)),
    )


def _has_mma(arch: str) -> bool:
    return arch == "" or int("".join(c for c in arch if c.isdigit())) >= LEAST_ARCH


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

"""Where a split-KV kernel finds the rows of keys and values: in an operand, in pages of a pool, in a cache and what a step adds to it, or in 8 bits with scales.

In: a graph, the region's operands by name, and the operand of an attention. Out: what the kernel's text says of its sizes and strides, as C++ over
`task.h`, and the type that finds a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ....codegen.program import Unsupported
from ....codegen.templates import render
from ....records import Graph
from ..joined_rows import JoinedRows, find_joined_rows
from ..paged_rows import PagedRows, find_paged_rows
from ..scaled_rows import ScaledRows, find_scaled_rows


@dataclass(frozen=True)
class KvRows:
    """Rows of one operand by its strides."""

    operand: str
    header = ""  # that its text needs

    def shape(self, what: str) -> str:
        """Name the array of sizes, (heads …, keys, features). `what`: KEY or VALUE."""
        return f"{self.operand}_shape"

    def stride(self, what: str) -> str:
        """Name the array of strides."""
        return f"{self.operand}_stride"

    def constants(self, what: str) -> str:
        """Declare the arrays that `task.h` lacks."""
        return ""

    def write(self, what: str, width: str) -> str:
        """The type KeyRows or ValueRows; `width`: features of a row."""
        return render(
            "attention/cuda/attention_rows.cuh",
            type_name=f"{what}Rows",
            operand=self.operand,
            stride=self.stride(what),
        )


@dataclass(frozen=True)
class _Arrays(KvRows):
    """Rows of a value that is never made: `sizes` and `steps` are those that it would have."""

    sizes: tuple[str, ...]
    steps: tuple[str, ...]

    def shape(self, what: str) -> str:
        return f"{what}_SHAPE"

    def stride(self, what: str) -> str:
        return f"{what}_STRIDE"

    def constants(self, what: str) -> str:
        arrays = ((self.shape(what), self.sizes), (self.stride(what), self.steps))
        return "".join(
            f"static constexpr __constant__ int64_t {name}[] = {{{', '.join(a)}}};\n" for name, a in arrays
        )


@dataclass(frozen=True)
class _PagedKv(_Arrays):
    table: str
    page: str  # elements
    wraps: bool

    def write(self, what: str, width: str) -> str:
        return render(
            "attention/cuda/attention_paged_rows.cuh", type_name=f"{what}Rows", operand=self.operand, table=self.table,
            table_type=f"{self.table}_t", operand_shape=f"{self.operand}_shape", operand_stride=f"{self.operand}_stride",
            stride=self.stride(what.upper()), page=self.page, wraps="true" if self.wraps else "false",
        )  # fmt: skip


@dataclass(frozen=True)
class _JoinedKv(_Arrays):
    added: str

    def write(self, what: str, width: str) -> str:
        return render(
            "attention/cuda/attention_joined_rows.cuh", type_name=f"{what}Rows", operand=self.operand, added=self.added, width=width,
            operand_shape=f"{self.operand}_shape", operand_stride=f"{self.operand}_stride", added_stride=f"{self.added}_stride",
        )  # fmt: skip


@dataclass(frozen=True)
class _ScaledKv(KvRows):
    scale: str
    scale_rank: int
    header = "warpsmith_cuda_pairs.h"

    def constants(self, what: str) -> str:
        steps = (
            f"{self.scale}_shape[{d}] == 1 ? 0 : {self.scale}_stride[{d}]" for d in range(self.scale_rank)
        )
        return f"static constexpr __constant__ int64_t {what}_SCALE_STRIDE[] = {{{', '.join(steps)}}};\n"

    def write(self, what: str, width: str) -> str:
        return render(
            "attention/cuda/attention_scaled_rows.cuh", type_name=f"{what}Rows", operand=self.operand, operand_type=f"{self.operand}_t",
            operand_stride=self.stride(what), scale=self.scale, scale_type=f"{self.scale}_t", scale_steps=f"{what.upper()}_SCALE_STRIDE",
        )  # fmt: skip


def describe_rows(graph: Graph, names: Mapping[str, str], value: str, query: str) -> KvRows:
    """Tell where the rows of an attention's operand are; `query`: the name of its queries. Raises Unsupported."""
    if value in names:
        return KvRows(names[value])
    paged, joined = find_paged_rows(graph, value), find_joined_rows(graph, value)
    scaled = find_scaled_rows(graph, value)
    if paged is not None:
        return _describe_pages(graph, names, paged, query)
    if scaled is not None:
        return _describe_scaled(graph, names, scaled)
    if joined is not None:
        return _describe_parts(graph, names, joined)
    raise Unsupported("keys that no operand holds")


def find_row_nodes(graph: Graph, value: str) -> tuple[str, ...]:
    """The nodes that make an operand which a kernel of few queries need not have, in order."""
    paged, joined = find_paged_rows(graph, value), find_joined_rows(graph, value)
    scaled = find_scaled_rows(graph, value)
    if paged is not None:
        return paged.nodes
    return scaled.nodes if scaled is not None else (joined.node,) if joined is not None else ()


def _describe_scaled(graph: Graph, names: Mapping[str, str], scaled: ScaledRows) -> KvRows:
    return _ScaledKv(names[scaled.stored], names[scaled.scale], len(graph.specs[scaled.scale].shape))


def _describe_pages(graph: Graph, names: Mapping[str, str], paged: PagedRows, query: str) -> KvRows:
    pool, table = names[paged.pool], names[paged.table]
    entries = " * ".join(f"{table}_shape[{d}]" for d in range(len(graph.specs[paged.table].shape)))
    keys = f"{entries} / {query}_shape[0] * {pool}_shape[{paged.rows}]"
    page = f"{pool}_stride[{paged.rows}] * {pool}_shape[{paged.rows}]"
    sizes = (f"{query}_shape[0]", f"{pool}_shape[{paged.heads}]", keys, f"{pool}_shape[{paged.features}]")
    strides = (f"{pool}_stride[{d}]" for d in (paged.heads, paged.rows, paged.features))
    return _PagedKv(
        pool, sizes, (f"{entries} / {query}_shape[0] * {page}", *strides), table, page, paged.wraps
    )


def _describe_parts(graph: Graph, names: Mapping[str, str], joined: JoinedRows) -> KvRows:
    cache, added, rank = names[joined.cache], names[joined.added], len(graph.specs[joined.cache].shape)
    sizes = [f"{cache}_shape[{d}]" for d in range(rank)]
    sizes[-2] = f"{cache}_shape[{rank - 2}] + {added}_shape[{rank - 2}]"
    return _JoinedKv(cache, tuple(sizes), tuple(f"{cache}_stride[{d}]" for d in range(rank)), added)

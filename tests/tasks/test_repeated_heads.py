"""Heads that are repeated for attention become grouped queries, where they are repeated as groups are; results stay."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as attend

from warpsmith.records import Graph
from warpsmith.runtime.interpreter import run_graph
from warpsmith.tasks.memory import export_module

ATTENTION, COPY = "aten.scaled_dot_product_attention.default", "aten.clone.default"
QUERIES, GROUPS, TOKENS, FEATURES = 6, 2, 5, 8


def repeat(x: torch.Tensor, times: int) -> torch.Tensor:
    """As `transformers.integrations.sdpa_attention.repeat_kv` does."""
    batch, heads, tokens, features = x.shape
    return x[:, :, None].expand(batch, heads, times, tokens, features).reshape(batch, -1, tokens, features)


class Attention(torch.nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def forward(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        times = QUERIES // GROUPS
        keys, values = repeat(key, times), repeat(value, times)
        if self.how == "interleaved":
            keys, values = (x.repeat(1, times, 1, 1) for x in (key, value))
        elif self.how == "keys alone":
            values = value.repeat(1, times, 1, 1)
        elif self.how == "twice":
            return attend(query, keys, values, attn_mask=mask) + attend(query, keys, values, scale=0.5)
        elif self.how == "one query for all heads":
            return attend(
                query[:, :1], repeat(key[:, :1], times), repeat(value[:, :1], times), attn_mask=mask
            )
        elif self.how == "one row of queries for all of the batch":
            return attend(query[:1], keys, values, attn_mask=mask)
        elif self.how == "read elsewhere":
            return attend(query, keys, values, attn_mask=mask) + keys.sum()
        elif self.how == "repeated along tokens":
            keys, values = (
                x[:, :, :, None].expand(-1, -1, -1, times, -1).reshape(2, GROUPS, -1, FEATURES)
                for x in (key, value)
            )
            return attend(query[:, :GROUPS], keys, values)
        return attend(query, keys, values, attn_mask=mask)


def export(how: str, folder: Path) -> tuple[Graph, dict[str, torch.Tensor], torch.Tensor]:
    torch.manual_seed(0)
    module = Attention(how)
    query = torch.randn(2, QUERIES, 3, FEATURES)
    key, value = (torch.randn(2, GROUPS, TOKENS, FEATURES) for _ in range(2))
    inputs = [query, key, value, torch.rand(2, 1, 3, TOKENS) > 0.3]
    inputs[3][..., 0] = True
    graph = export_module(module, tuple(inputs), {}, folder).task.main.graph
    return graph, dict(zip(("query", "key", "value", "mask"), inputs, strict=True)), module(*inputs)


@pytest.mark.parametrize(
    ("how", "grouped", "copies"),
    [
        ("as groups", [True], 0),
        ("twice", [True, True], 0),
        ("read elsewhere", [True], 1),
        ("interleaved", [False], None),
        ("keys alone", [False], None),
        ("one query for all heads", [False], None),
        ("one row of queries for all of the batch", [False], None),
        ("repeated along tokens", [False], None),
    ],
)
def test_heads_repeated_as_groups_are_shared(
    how: str, grouped: list[bool], copies: int | None, tmp_path: Path
) -> None:
    graph, inputs, expected = export(how, tmp_path)
    nodes = [n for n in graph.nodes if n.op == ATTENTION]
    assert [bool(n.kwargs.get("enable_gqa", False)) for n in nodes] == grouped
    if copies is not None:
        assert sum(n.op == COPY for n in graph.nodes) == copies
    torch.testing.assert_close(run_graph(graph, inputs)[graph.outputs[0].value], expected)

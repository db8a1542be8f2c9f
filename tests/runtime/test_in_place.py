"""Updates of inputs that are made where the input is, and those that must not be."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from warpsmith.records import Graph
from warpsmith.runtime.deployed import deploy
from warpsmith.runtime.source import candidate_source
from warpsmith.tasks.export import export_program, program_graph


class Updating(nn.Module):
    def __init__(self, body: Callable[..., object]) -> None:
        super().__init__()
        self.body = body

    def forward(self, cache: torch.Tensor, row: torch.Tensor, place: torch.Tensor) -> object:
        return self.body(cache, row, place)


def append(cache: torch.Tensor, row: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    cache.index_copy_(0, place, row)
    return cache.sum(0)


def append_twice(cache: torch.Tensor, row: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    cache.index_copy_(0, place, row)
    cache.index_add_(0, place, row * 2)
    return cache * 2


def read_before(cache: torch.Tensor, row: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    before = cache.sum(0)
    cache.index_copy_(0, place, row)
    return before + cache.sum(0)


def add_before_and_after(cache: torch.Tensor, row: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    before = cache.clone()
    cache[place] = row
    return before + cache


def return_view_of_new(cache: torch.Tensor, row: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    cache.index_copy_(0, place, row)
    return cache[1:3]


def return_new(cache: torch.Tensor, row: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    cache.index_copy_(0, place, row)
    return cache


def return_unsafe_view(cache: torch.Tensor, row: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    cache.index_copy_(0, place, row)
    view: torch.Tensor = torch.ops.aten._unsafe_view.default(cache, [24])
    return view


def return_shuffled(cache: torch.Tensor, row: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    cache.index_copy_(0, place, row)
    return torch.nn.functional.pixel_shuffle(cache[None, None], 1)


def swap_halves(cache: torch.Tensor, row: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    cache.index_copy_(0, place, cache[:1].flip(1))
    return row + 1


def write_elsewhere(cache: torch.Tensor, row: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    cache.copy_((cache + 1).index_copy(0, place, row))
    return row + 1


def keep_old(cache: torch.Tensor, row: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    row.copy_(cache[:1])
    cache.index_copy_(0, place, row + 1)
    return row * 2


BODIES = {
    append: True, append_twice: True, read_before: True, add_before_and_after: True, return_view_of_new: False, return_new: False,
    return_unsafe_view: False, return_shuffled: False,
    swap_halves: False, write_elsewhere: False, keep_old: False,
}  # fmt: skip


def make_values() -> list[torch.Tensor]:
    return [torch.arange(24.0).reshape(6, 4), torch.full((1, 4), 0.5), torch.tensor([2])]


def export(body: Callable[..., object]) -> Graph:
    return program_graph(export_program(Updating(body), tuple(make_values()), {}, __file__), __file__)


@pytest.mark.parametrize(("body", "in_place"), BODIES.items(), ids=[b.__name__ for b in BODIES])
def test_the_deployed_text_does_what_the_module_does(body: Callable[..., object], in_place: bool) -> None:
    graph, expected, values = export(body), make_values(), make_values()
    result = body(*expected)
    addresses = [v.data_ptr() for v in values]
    returned = deploy(graph, [])(values)
    torch.testing.assert_close(returned[0], result)
    torch.testing.assert_close(values, expected)
    assert addresses == [v.data_ptr() for v in values]
    assert ("v_cache.copy_(" in candidate_source(graph, [])) is not in_place


def test_a_second_call_leaves_the_result_of_the_first() -> None:
    graph, values = export(return_view_of_new), make_values()
    run = deploy(graph, [])
    first = run(values)[0].clone()
    values[1] += 1
    kept = run(make_values())[0]
    run(values)
    torch.testing.assert_close(kept, first)

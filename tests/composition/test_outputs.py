"""What of a run is compared: answers one by one, what they share once, numbers, parts of large tensors."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import torch

from warpsmith.composition.outputs import MOST_ELEMENTS, collect_outputs

STEPS = 3


class Cache:
    def __init__(self) -> None:
        self.rows = torch.zeros(STEPS, 2)
        self.count = 0


class Decoder(torch.nn.Module):
    """Answers with a value and the cache, as models of `transformers` do. `faulty`: the step whose row it writes wrongly."""

    def __init__(self, faulty: int = -1) -> None:
        super().__init__()
        self.faulty = faulty

    def forward(self, x: torch.Tensor, cache: Cache | None = None) -> Any:
        cache = cache if cache is not None else Cache()
        cache.rows[cache.count] = x + (cache.count == self.faulty)
        cache.count += 1
        return OrderedDict(logits=x * 2, cache=cache)


def generate(model: torch.nn.Module) -> torch.Tensor:
    cache = Cache()
    for step in range(STEPS):
        model(torch.full((2,), float(step)), cache=cache)
    return torch.tensor([STEPS])


def generate_from_nothing(model: torch.nn.Module) -> torch.Tensor:
    """The first call makes the cache."""
    cache = None
    for step in range(STEPS):
        cache = model(torch.full((2,), float(step)), cache)["cache"]
    return torch.tensor([STEPS])


def test_a_cache_that_is_passed_on_counts_once_as_it_ends() -> None:
    outputs = collect_outputs(generate, Decoder(), 0)
    *answers, rows, result = outputs
    assert [a.tolist() for a in answers] == [[0.0, 0.0], [2.0, 2.0], [4.0, 4.0]]
    assert rows.tolist() == [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]
    assert result.tolist() == [STEPS]


def test_a_wrong_row_of_a_cache_is_seen_at_the_end() -> None:
    for step in range(STEPS):
        outputs = collect_outputs(generate, Decoder(faulty=step), 0)
        assert outputs[STEPS].tolist() != [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]


def test_a_cache_that_a_call_makes_counts_as_its_answer_too() -> None:
    outputs = collect_outputs(generate_from_nothing, Decoder(), 0)
    first, *answers, rows, _ = [output.tolist() for output in outputs]
    assert first == [0.0, 0.0]
    assert answers == [[0.0] * 6, [2.0, 2.0], [4.0, 4.0]]
    assert rows == [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]


def test_numbers_and_parts_of_large_tensors_are_outputs() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x

    large = torch.randn(MOST_ELEMENTS + 1)
    answer, loss = collect_outputs(lambda model: float(model(large)[0]) * 0 + 0.5, Model(), 0)
    assert answer.numel() == MOST_ELEMENTS
    assert set(answer[:50].tolist()) <= set(large.tolist())
    assert loss.tolist() == [0.5]

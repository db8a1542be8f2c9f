"""Calls of an optimized module as the user makes them: any classes in and out, and every effect that the original has."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from warpsmith.runtime.calls import CallMatcher, Results
from warpsmith.runtime.module import OptimizedModule, as_module
from warpsmith.tasks.flattened import CallShape
from warpsmith.tasks.memory import export_module
from warpsmith.tasks.structure import Parts


@dataclass
class Output:
    logits: torch.Tensor
    cache: Any = None
    hidden: Any = None


class Cache:
    def __init__(self, rows: torch.Tensor) -> None:
        self.rows, self.seen = rows, len(rows)

    def update(self, new: torch.Tensor) -> torch.Tensor:
        self.rows, self.seen = torch.cat([self.rows, new]), self.seen + len(new)
        return self.rows


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(4, 4)
        self.last: torch.Tensor | None = None

    def forward(
        self,
        x: torch.Tensor,
        cache: Cache | None = None,
        *,
        scale: float = 1.0,
        extra: Any = None,
        **more: Any,
    ) -> Output:
        y = self.project(x) * scale
        self.last = y + 1
        rows = cache.update(y) if cache is not None else y
        x.mul_(1.0)
        return Output(rows.sum(0), cache, OrderedDict(y=y, more=list(more.values()), extra=extra))


def optimized(tmp_path: Path, *args: Any, **kwargs: Any) -> OptimizedModule:
    """Through the exported graph in ATen, as if a unit had won."""
    module = Decoder().eval()
    exported = export_module(module, args, kwargs, tmp_path)
    graph = exported.task.graph
    return OptimizedModule(module, graph, [], rewritten=graph, names=exported.names)


def both(fast: OptimizedModule, *args: Any, **kwargs: Any) -> tuple[Output, Output, Any, Any]:
    """What the original and the optimized module return, and the arguments after each."""
    theirs, ours = copy.deepcopy((args, kwargs)), copy.deepcopy((args, kwargs))
    with torch.no_grad():
        return fast.original(*theirs[0], **theirs[1]), fast(*ours[0], **ours[1]), theirs, ours


def test_results_come_back_in_the_users_classes(tmp_path: Path) -> None:
    fast = optimized(tmp_path, torch.randn(2, 4), extra=[torch.ones(1)], also=torch.ones(2))
    expected, result, *_ = both(fast, torch.randn(2, 4), extra=[torch.zeros(1)], also=torch.ones(2))
    assert fast.fast_calls == 1
    assert type(result) is Output
    assert result.cache is None
    assert type(result.hidden) is OrderedDict
    assert list(result.hidden) == list(expected.hidden)
    torch.testing.assert_close(result.logits, expected.logits)
    torch.testing.assert_close(result.hidden["more"], expected.hidden["more"])


def test_a_cache_grows_in_the_callers_own_object(tmp_path: Path) -> None:
    fast = optimized(tmp_path, torch.randn(2, 4), Cache(torch.randn(3, 4)))
    expected, result, theirs, ours = both(fast, torch.randn(2, 4), Cache(torch.randn(3, 4)))
    assert fast.fast_calls == 1
    assert result.cache is ours[0][1]
    assert ours[0][1].seen == 5
    torch.testing.assert_close(ours[0][1].rows, theirs[0][1].rows)
    torch.testing.assert_close(result.logits, expected.logits)
    _, again, *_ = both(fast, torch.randn(2, 4), result.cache)
    assert fast.fallbacks == 1  # five rows are another call
    assert again.cache.seen == 7


def test_an_attribute_that_forward_sets_is_set(tmp_path: Path) -> None:
    fast = optimized(tmp_path, torch.randn(2, 4))
    with torch.no_grad():
        fast(torch.zeros(2, 4))  # makes the attribute: the graph knows it as later calls find it
        x = torch.randn(2, 4)
        fast(x.clone())
        assert (fast.fallbacks, fast.fast_calls) == (1, 1)
        torch.testing.assert_close(fast.original.last, fast.original.project(x) + 1)
    fast.original.last = [1]
    assert "last is in another form" in str(fast._match_call((torch.zeros(2, 4),), {}))


@pytest.mark.parametrize(
    ("args", "kwargs", "fits"),
    [
        ((0, None), {"scale": 2.0}, True), ((0,), {"cache": None, "scale": 2.0, "extra": None}, True),
        ((), {"x": 0, "cache": None, "scale": 2.0}, True), ((0,), {"scale": 2}, False), ((0,), {"scale": 2.0}, True),
        ((0, None), {}, False), ((0, None), {"scale": 2.0, "unknown": 1}, False), ((0, None, 3), {}, False),
        ((0, (x for x in ())), {"scale": 2.0}, False), ((0, []), {"scale": 2.0}, False),
    ],
)  # fmt: skip
def test_calls_match_by_position_keyword_and_default(args: Any, kwargs: Any, fits: bool) -> None:
    module, tensor = Decoder(), torch.randn(2, 4)
    shape = CallShape.of(module.forward, (tensor, None), {"scale": 2.0})
    matcher = CallMatcher(module.forward, shape.tree)
    args = tuple(tensor if type(a) is int and a == 0 else a for a in args)
    kwargs = {k: tensor if k == "x" else v for k, v in kwargs.items()}
    matched = matcher.match(args, kwargs)
    assert (matched is not None) is fits
    if matched is not None:
        assert matched[0] == [tensor]


class Layers:
    """A cache of several layers, as those of transformers are: an object that holds a list of objects."""

    def __init__(self, count: int = 3) -> None:
        self.layers = [Cache(torch.randn(2, 4)) for _ in range(count)]


def attend(x: torch.Tensor, cache: Layers) -> None: ...


def replace_a_tensor(cache: Layers) -> None:
    cache.layers[1].rows = torch.randn(2, 4)


def replace_a_number(cache: Layers) -> None:
    cache.layers[2].seen = 7


def replace_a_layer(cache: Layers) -> None:
    cache.layers[1] = Cache(torch.randn(2, 4))


def add_a_layer(cache: Layers) -> None:
    cache.layers.append(Cache(torch.randn(2, 4)))


@pytest.mark.parametrize(
    ("change", "fits"),
    [(replace_a_tensor, True), (replace_a_number, False), (replace_a_layer, True), (add_a_layer, False)],
)
def test_an_instance_is_taken_apart_again_where_something_in_it_was_replaced(change: Any, fits: bool) -> None:
    x, cache = torch.randn(1, 4), Layers()
    matcher = CallMatcher(attend, CallShape.of(attend, (x, cache), {}, unused=[1, 3]).tree)
    for _ in range(3):
        leaves, objects = matcher.match((x, cache), {})
        assert [id(t) for t in leaves] == [id(x), id(cache.layers[1].rows)]
        assert [id(o) for o in objects] == [id(o) for o in (cache, cache.layers, *cache.layers)]
    change(cache)
    matched = matcher.match((x, cache), {})
    assert (matched is not None) == fits
    if matched is not None:
        assert matched[0][1] is cache.layers[1].rows


def test_an_instance_is_not_kept_alive_and_another_one_is_told_from_it() -> None:
    x, cache = torch.randn(1, 4), Layers()
    matcher = CallMatcher(attend, CallShape.of(attend, (x, cache), {}).tree)
    assert matcher.match((x, cache), {}) is not None
    rows, another = weakref.ref(cache.layers[0].rows), Layers()
    (_, first, *_), _ = matcher.match((x, another), {})
    assert first is another.layers[0].rows
    matcher.match((x, cache), {})
    del cache
    assert rows() is None
    assert matcher.match((x, another), {}) is not None


def test_an_instance_that_refers_to_itself_is_not_kept_alive() -> None:
    x, cache = torch.randn(1, 4), Layers()
    cache.layers[0].whole = cache
    matcher = CallMatcher(attend, CallShape.of(attend, (x, cache), {}).tree)
    assert matcher.match((x, cache), {}) is not None
    rows = weakref.ref(cache.layers[1].rows)
    del cache
    gc.collect()
    assert rows() is None


class Sealed(Cache):
    """Says itself what it holds."""

    def __getstate__(self) -> Any:
        return {"rows": self.rows.clone(), "seen": self.seen}


def test_an_instance_that_says_itself_what_it_holds_is_asked_each_time() -> None:
    x, cache = torch.randn(1, 4), Sealed(torch.randn(2, 4))
    matcher = CallMatcher(attend, CallShape.of(attend, (x, cache), {}).tree)
    first, second = (matcher.match((x, cache), {})[0][1] for _ in range(2))
    assert first is not second


def test_the_order_of_a_dict_is_part_of_a_call() -> None:
    """forward may go through it in that order."""

    def forward(rows: dict[str, torch.Tensor]) -> torch.Tensor:
        return torch.cat(list(rows.values()))

    a, b = torch.zeros(1), torch.ones(1)
    matcher = CallMatcher(forward, CallShape.of(forward, ({"a": a, "b": b},), {}).tree)
    assert matcher.match(({"a": b, "b": a},), {}) is not None
    assert matcher.match(({"b": b, "a": a},), {}) is None


def test_a_function_is_called_by_its_own_signature(tmp_path: Path) -> None:
    def difference(minuend: torch.Tensor, subtrahend: torch.Tensor, *, axis: int = 0) -> torch.Tensor:
        return (minuend - subtrahend).sum(axis)

    a, b = torch.randn(3), torch.randn(3)
    exported = export_module(difference, (), {"subtrahend": b, "minuend": a}, tmp_path)
    graph = exported.task.graph
    fast = OptimizedModule(as_module(difference), graph, [], rewritten=graph, names=exported.names)
    assert [i.target for i in graph.inputs] == ["minuend", "subtrahend"]
    torch.testing.assert_close(fast(a, b), difference(a, b))
    torch.testing.assert_close(fast(subtrahend=b, minuend=a, axis=0), difference(a, b))
    assert fast.fast_calls == 2


def test_classes_are_learnt_from_what_the_original_returns() -> None:
    module, output = Decoder(), Output(torch.ones(1))
    parts = Parts()
    tree = parts.add(output)
    results = Results(module, tree, {})
    assert not results.known
    assert not results.learn(Output(torch.ones(1), 3), [])
    assert results.learn(Output(torch.zeros(1)), [])
    assert results.known
    assert type(results.build([torch.ones(1)], [])) is Output
    assert Results(module, {"tuple": [0, {"const": 1}]}, {}).known


def test_another_hook_is_another_module(tmp_path: Path) -> None:
    fast = optimized(tmp_path, torch.randn(2, 4))
    fast.original.last = torch.zeros(2, 4)
    seen: list[Any] = []
    handle = fast.original.project.register_forward_hook(lambda *_: seen.append(1))
    with torch.no_grad():
        fast(torch.randn(2, 4))
        assert (fast.fast_calls, len(seen)) == (0, 1)
        assert "hooks" in fast.last_fallback
        handle.remove()
        fast(torch.randn(2, 4))
    assert fast.fast_calls == 1


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_and_pickles_run_the_same_program(copied: Any, tmp_path: Path) -> None:
    fast = optimized(tmp_path, torch.randn(2, 4), Cache(torch.randn(3, 4)))
    again = copied(fast)
    assert again.original is not fast.original
    x, cache = torch.randn(2, 4), Cache(torch.randn(3, 4))
    with torch.no_grad():
        expected = fast(x.clone(), copy.deepcopy(cache))
        result = again(x.clone(), cache)
    assert again.fast_calls == fast.fast_calls
    torch.testing.assert_close(result.logits, expected.logits)


def test_kernels_of_another_processor_stay_in_the_pickle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = pickle.dumps(optimized(tmp_path, torch.randn(2, 4)))
    monkeypatch.setattr("warpsmith.runtime.module.make_processor_key", lambda: "another")
    module = pickle.loads(data)
    module(torch.randn(2, 4))
    assert module.fallbacks == 1
    assert "another processor" in module.last_fallback


def test_original_runs_under_a_transform_of_torch_func(tmp_path: Path) -> None:
    """What a transform hands over has no memory that a kernel could read."""
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).eval()
    exported = export_module(module, (torch.randn(3, 4),), {}, tmp_path)
    fast = OptimizedModule(module, exported.task.graph, [], rewritten=exported.task.graph)
    stack = torch.randn(2, 3, 4)
    with torch.no_grad():
        torch.testing.assert_close(torch.func.vmap(fast)(stack), module(stack))
    assert (fast.fast_calls, fast.fallbacks) == (0, 1)
    assert "vmap" in fast.last_fallback


def test_what_earlier_calls_were_like_changes_no_answer() -> None:
    """Where the arguments of a kind of call lie is remembered."""

    def function(x: Any, *more: Any, scale: Any = 1, **named: Any) -> None: ...

    x, y = torch.zeros(2), torch.zeros(2)
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((x,), {}), ((), {"x": x}), ((x, y), {}), ((x, 1), {}), ((x, True), {}), ((x, (y,)), {}), ((x,), {"scale": 1}),
        ((x,), {"scale": True}), ((x,), {"scale": 1.0}), ((x,), {"scale": y}), ((x,), {"z": y}), ((x,), {"z": y, "a": 1}),
        ((x,), {"a": 1, "z": y}), ((x,), {"a": 1.0, "z": y}), ((), {}), ((x,), {"x": x}),
    ]  # fmt: skip
    for args, kwargs in calls[:-2]:
        call = CallShape.of(function, args, kwargs).tree
        used = CallMatcher(function, call)
        for other in calls * 2:
            fresh = CallMatcher(function, call)
            assert used.match(*other) == fresh.match(*other)
        assert used.match(args, kwargs) is not None


def test_numbers_of_another_type_are_another_call() -> None:
    call = CallShape.of(lambda x, scale: x * scale, (torch.zeros(2), [1, None]), {}).tree
    matcher = CallMatcher(lambda x, scale: x * scale, call)
    fits = [matcher.match((torch.zeros(2), [n, None]), {}) is not None for n in (1, True, 1.0, 2)]
    assert fits == [True, False, False, False]


@pytest.mark.parametrize(
    ("value", "other"), [(0.0, -0.0), ({"a": 1, "b": 2}, {"b": 2, "a": 1}), ((1, 2), [1, 2])]
)
def test_the_sign_of_zero_and_the_order_of_names_are_part_of_a_call(value: Any, other: Any) -> None:
    def function(x: torch.Tensor, setting: Any) -> None: ...

    x = torch.zeros(2)
    matcher = CallMatcher(function, CallShape.of(function, (x, value), {}).tree)
    assert [matcher.match((x, v), {}) is not None for v in (value, other, value)] == [True, False, True]
    cache = Cache(x)
    cache.seen = value
    matcher = CallMatcher(function, CallShape.of(function, (x, cache), {}).tree)
    for present in (value, other, value):
        cache.seen = present
        assert (matcher.match((x, cache), {}) is not None) is (present is value)

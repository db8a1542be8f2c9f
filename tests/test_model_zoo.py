"""`benchmarks/model_zoo.py`: strict comparison, the page, processes; and models of transformers through `warpsmith.optimize`.

The end-to-end tests judge one candidate a model, of one layer and on one thread, and count it as faster where it is right: they ask
what the returned module answers.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import torch

from warpsmith.config import Config
from warpsmith.records import Budget

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
LAYERS = ("num_hidden_layers", "num_layers", "n_layer")  # as transformers' configurations call their number
ROW: dict[str, Any] = {
    "item": "timm/resnet50", "family": "convolution", "status": "win", "reason": "", "wall_s": 61.0, "nodes": 55,
    "parameters": 8_040_000, "output": "Tensor", "speedup": [1.5, 1.4, 1.6], "baseline": "compile", "limit_share": 0.2,
    "example": "", "fresh": "", "fast_calls": 2, "fallbacks": 0, "seconds_by_stage": {"baselines": 20.0},
    "date": "2026-01-02", "machine": "a machine", "versions": {"timm": "1.0"},
}  # fmt: skip


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


class Cache:
    def __init__(self, keys: torch.Tensor, filled: bool = True) -> None:
        self.keys, self.filled = keys, filled


class OtherCache(Cache):
    pass


@dataclasses.dataclass
class Output:
    logits: torch.Tensor
    loss: torch.Tensor | None = None


def difference(reference: Any, answer: Any) -> str:
    from same_outputs import difference

    return difference(reference, answer)


def test_equal_structures_do_not_differ() -> None:
    def build() -> Any:
        return OrderedDict(out=(torch.ones(3), [None, 2.0]), cache=Cache(torch.arange(4)))

    assert difference(build(), build()) == ""


@pytest.mark.parametrize(
    ("reference", "answer", "place"),
    [
        (OrderedDict(a=1), {"a": 1}, "output is a dict, not a OrderedDict"),
        (Cache(torch.ones(2)), OtherCache(torch.ones(2)), "output is a OtherCache"),
        (Cache(torch.ones(2)), Cache(torch.ones(2), filled=False), "output.filled is False, not True"),
        ((torch.ones(2), None), (torch.ones(2), torch.ones(2)), "output[1] is a Tensor, not a NoneType"),
        (Output(torch.ones(2)), Output(torch.ones(2), torch.ones(2)), "output.loss is a Tensor"),
        ([torch.ones(2)], [torch.ones(2), torch.ones(2)], "output has [0], [1], not [0]"),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, "output has ['b'], ['a'], not ['a'], ['b']"),
        (torch.ones(2), torch.ones(2).double(), "output has dtype torch.float64"),
        (torch.ones(2), torch.ones(1, 2), "output has shape"),
        (torch.nn.Parameter(torch.ones(2)), torch.ones(2), "output is a Tensor, not a Parameter"),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), "output: "),
        (torch.ones(2), torch.tensor([1.0, 1.01]), "output: "),
        (torch.ones(2), torch.tensor([1.0, float("nan")]), "output: "),
        (torch.zeros(2), torch.tensor([0.0, 1e-6]), "output: "),
    ],
)  # fmt: skip
def test_differences_are_named(reference: Any, answer: Any, place: str) -> None:
    assert difference(reference, answer).startswith(place)


def test_rounding_of_the_dtype_is_allowed() -> None:
    values = torch.randn(100)
    assert difference(values, values * (1 + 1e-6)) == ""
    assert difference(values.bfloat16(), (values * 1.004).bfloat16()) == ""


def test_objects_that_refer_to_each_other_are_compared_once() -> None:
    def build() -> Cache:
        cache = Cache(torch.ones(2))
        cache.filled = cache  # type: ignore[assignment]
        return cache

    assert difference(build(), build()) == ""


def test_arguments_that_are_returned_are_told() -> None:
    from same_outputs import shared_objects

    cache = Cache(torch.ones(2))
    assert shared_objects({"past": cache, "flag": True}, {"cache": cache, "flag": True}) == {"cache": "past"}


def test_call_that_leaves_a_given_cache_behind_differs() -> None:
    from optimized_module import compare_call

    class Grows(torch.nn.Module):
        def forward(self, cache: Cache) -> torch.Tensor:
            cache.keys = cache.keys + 1
            return cache.keys

    class Forgets(torch.nn.Module):
        def forward(self, cache: Cache) -> torch.Tensor:
            return cache.keys + 1

    def inputs(seed: int) -> Any:
        return (), {"cache": Cache(torch.full((2,), float(seed)))}

    assert compare_call(Grows(), Grows(), inputs, 3) == ""
    assert compare_call(Grows(), Forgets(), inputs, 3).startswith("inputs after the call[1]['cache'].keys")


def test_page_counts_and_shows_losses_and_refusals() -> None:
    from model_zoo_page import render_page

    rows = [
        ROW,
        {**ROW, "item": "timm/levit", "status": "no-win", "reason": "not faster", "speedup": [0.8, 0.7, 0.9]},
        {"item": "timm/other", "status": "refused", "reason": "takes a file", "wall_s": 3.0},
        {
            "item": "torchvision/vgg",
            "status": "timeout",
            "reason": "not done",
            "wall_s": 9.0,
            "log": ["searching"],
        },
    ]
    page = render_page(rows, "python benchmarks/model_zoo.py --time 5s", 2)
    assert "4 models: 2 ran to a verdict" in page
    assert (
        "1 were refused by name, 0 answered wrongly, 1 ended otherwise. 1 wins; in 1 the best candidate"
        in page
    )
    assert "**2 models have not been run yet" in page
    assert "1.50× \\[1.40, 1.60\\]" in page
    assert "0.80× \\[0.70, 0.90\\]" in page
    assert "- other: refused: takes a file" in page
    assert "- vgg: timeout: not done (searching)" in page
    assert page.index("## timm") < page.index("## torchvision")


def test_items_go_on_where_they_were_stopped(tmp_path: Path) -> None:
    from item_processes import Items
    from lanes import divide

    script = tmp_path / "script.py"
    script.write_text(
        "import argparse, json, sys\n"
        "from pathlib import Path\n"
        "p = argparse.ArgumentParser()\n"
        "[p.add_argument(n) for n in ('--item', '--row', '--parent')]\n"
        "o = p.parse_args()\n"
        "sys.exit('no such thing') if o.item == 'bad' else None\n"
        "Path(o.row).write_text(json.dumps({'status': 'win', 'reason': o.item}))\n"
    )
    out = tmp_path / "rows.jsonl"
    out.write_text('{"item": "old", "status": "win", "reason": "before", "wall_s": 1}\n{"item": "ba')
    rows = Items(str(script), [], 60.0, divide(2, None)).run_rest(["old", "bad", "new"], out)
    assert [row["reason"] for row in rows] == ["before", "ended with code 1", "new"]
    assert rows[1]["log"] == ["no such thing"]
    assert Items(str(script), [], 0.0).run_rest(["old", "bad", "new"], out) == rows  # all are read again


def test_every_entry_has_a_name_of_its_own() -> None:
    from model_zoo_models import entries

    keys = [(entry.library, entry.name) for entry in entries()]
    assert len(set(keys)) == len(keys)
    assert [
        sum(library == name for library, _ in keys) for name in ("transformers", "torchvision", "timm")
    ] == [40, 20, 20]


def build_with_layers(entry: Any, count: int) -> torch.nn.Module:
    """The module of an entry of transformers, with so many layers."""
    class_name, options = entry.build.args
    layers = {name: count for name in LAYERS if name in options}
    return dataclasses.replace(
        entry, build=functools.partial(entry.build.func, class_name, options | layers)
    ).make_module()


@pytest.fixture
def _count_right_as_faster(
    right_counts_as_faster: Callable[[], AbstractContextManager[None]],
) -> Iterator[None]:
    with right_counts_as_faster():
        yield


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("_count_right_as_faster")
@pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="transformers is not installed")
@pytest.mark.parametrize(
    ("name", "layers"),
    [
        ("BertForSequenceClassification", 1), ("LlamaForCausalLM (decode)", 2), ("ViTForImageClassification", 1),
        ("T5ForConditionalGeneration", 1), ("GPT2LMHeadModel", 1),
    ],
)  # fmt: skip
def test_model_of_transformers_comes_back_with_the_same_answers(
    name: str, layers: int, tmp_path: Path, with_peaks: Callable[..., Path]
) -> None:
    """Two layers where a cache is given, so that those of layers are told apart."""
    from model_zoo_models import entries
    from optimized_module import measure_module

    entry = next(entry for entry in entries() if entry.name == name)
    module = build_with_layers(entry, layers)
    config = Config(
        archive=tmp_path / "archive.db",
        cache=with_peaks(tmp_path / "cache", 1),
        baselines=("eager",),
        threads=1,
    )
    row = measure_module(
        module, lambda seed: entry.inputs(module, seed), target="cpu", budget=Budget(seconds=5, evaluations=1),
        config=config, seed=0,
    )  # fmt: skip
    assert row["status"] == "win" or "quarantined" in row["reason"], row["reason"]
    assert row["example"] == row["fresh"] == row["example_changed"] == ""
    assert row["fast_calls"] == (2 if row["status"] == "win" else 0), row["last_fallback"]

"""Which regions are chosen: a layer or its parts, by predicted saving."""

from __future__ import annotations

import pytest

from warpsmith.workload.regions import LayerRegion, choose_regions, find_parts, predict_saving_s


def region(saving_s: float, *paths: str, calls: int = 1, seconds: float = 1.0) -> LayerRegion:
    return LayerRegion(
        kind="Layer", paths=paths, inputs=(), outputs=(), training=False, gradients=False, autocast="", calls=calls,
        seconds=seconds, share=seconds, saving_s=saving_s, key=f"{paths} {saving_s}",
    )  # fmt: skip


def chosen(*regions: LayerRegion) -> dict[str, tuple[str, ...]]:
    return {r.paths[0]: r.chosen for r in choose_regions(regions) if r.chosen}


def test_parent_or_children_are_chosen_by_what_they_save() -> None:
    parts = region(0.2, "a.x"), region(0.1, "a.y")
    assert chosen(region(0.5, "a"), *parts) == {"a": ("a",)}
    assert chosen(region(0.31, "a"), *parts) == {
        "a.x": ("a.x",),
        "a.y": ("a.y",),
    }  # not enough more for the larger task
    assert chosen(region(0.1, "a"), *parts) == {"a.x": ("a.x",), "a.y": ("a.y",)}


def test_whole_model_stands_above_all() -> None:
    assert chosen(region(0.9, ""), region(0.2, "a"), region(0.2, "b.c")) == {"": ("",)}


def test_equal_layers_are_chosen_where_no_parent_is() -> None:
    """Norms inside of chosen layers go with them; the one at the end stays a region of its own."""
    layers, norms = region(0.6, "l.0", "l.1"), region(0.3, "l.0.norm", "l.1.norm", "norm")
    assert chosen(layers, norms) == {"l.0": ("l.0", "l.1"), "l.0.norm": ("norm",)}
    last = next(r for r in choose_regions([layers, norms]) if r.chosen == ("norm",))
    assert last.chosen_saving_s == pytest.approx(0.1)


def test_one_kind_of_call_of_a_layer_is_chosen() -> None:
    prefill, decode = region(0.1, "mlp", seconds=0.4), region(0.3, "mlp", seconds=0.5)
    assert [r.saving_s for r in choose_regions([prefill, decode]) if r.chosen] == [0.3]


def test_parts_of_what_came_to_nothing_are_chosen_within_it() -> None:
    """Not what was searched, nor what lies elsewhere; a layer of the same name's beginning is elsewhere."""
    layers = region(0.6, "l.1", "l.2").model_copy(update={"chosen": ("l.1",)})
    norms, linear = region(0.3, "l.1.norm", "l.10.norm", "norm"), region(0.2, "l.1.linear")
    regions = [layers, norms, linear, region(0.1, "head"), region(0.62, "l")]
    parts = find_parts(regions, layers, {layers.key})
    assert {p.paths[0]: p.chosen for p in parts} == {
        "l.1.norm": ("l.1.norm",), "l.1.linear": ("l.1.linear",)
    }  # fmt: skip
    assert [p.paths[0] for p in find_parts(regions, layers, {layers.key, norms.key})] == ["l.1.linear"]
    whole = region(0.9, "").model_copy(update={"chosen": ("",)})
    assert [p.chosen for p in find_parts([whole, *regions], whole, {whole.key})] == [
        ("l.2",), ("l.1.norm", "l.10.norm", "norm"), ("l.1.linear",), ("head",)
    ]  # fmt: skip


def test_regions_without_a_saving_are_not_chosen() -> None:
    assert chosen(region(0.0, "a"), region(0.0, "")) == {}


def test_promise_grows_with_the_room_and_is_less_for_one_operation() -> None:
    assert predict_saving_s(1.0, 0.25, 3) == pytest.approx(0.5)
    assert 0 < predict_saving_s(1.0, 0.25, 1) < 0.5
    assert predict_saving_s(1.0, 2.0, 3) == predict_saving_s(0.0, 0.0, 3) == 0.0


def test_a_layer_that_takes_no_longer_than_a_call_promises_nothing() -> None:
    """As a norm's launches on a GPU: it is worth a kernel only with what is around it."""
    assert predict_saving_s(1.0, 0.25, 3, host_s=0.75) == 0.0
    assert predict_saving_s(1.0, 0.15, 3, host_s=0.10) == predict_saving_s(1.0, 0.25, 3)


def test_gain_of_the_whole_is_amdahls() -> None:
    half = region(0.25, "a", seconds=0.5)
    assert half.gain == pytest.approx(1 / 0.75)

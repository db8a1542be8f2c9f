"""Capturing a workload: what is seen, what cannot be a task and why, and that nothing stays behind."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import warpsmith
from warpsmith.config import Config
from warpsmith.errors import UsageError
from warpsmith.workload.recorder import Recorder, Timed
from warpsmith.workload.recording import Recording
from warpsmith.workload.regions import CALL_S


class Block(nn.Module):
    def __init__(self, number: int, width: int = 16) -> None:
        super().__init__()
        self.layer_idx = number
        self.norm, self.up = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        return x + torch.relu(self.up(self.norm(x))) * scale


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block(n) for n in range(3))
        self.narrow = Block(3, 16)
        self.narrow.norm.eps = 0.5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in (*self.layers, self.narrow):
            x = layer(x, scale=0.5)
        return x


@pytest.fixture(name="config")
def _config(tmp_path: Path, with_peaks: Callable[..., Path]) -> Config:
    return Config(archive=tmp_path / "a.db", cache=with_peaks(tmp_path / "cache"))


def see(model: nn.Module, *args: object, config: Config, **kwargs: object) -> Recording:
    with torch.no_grad(), warpsmith.capture(model, config=config) as seen:
        model(*args, **kwargs)
    return seen


def test_equal_layers_are_one_region_and_others_are_not(config: Config) -> None:
    seen = see(Net().eval(), torch.randn(4, 16), config=config)
    blocks = [r for r in seen.regions if r.kind == "Block"]
    assert sorted(r.paths for r in blocks) == [("layers.0", "layers.1", "layers.2"), ("narrow",)]
    (three,) = [r for r in blocks if r.count == 3]
    assert (three.calls, three.inputs, three.training) == (3, ("float32[4,16]",), False)
    assert three.limit is not None
    assert three.limit.flops > 0
    assert three.limit_share > 0


def test_layers_that_a_call_costs_more_than_are_not_chosen(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert see(Net().eval(), torch.randn(64, 16), config=config).chosen
    monkeypatch.setitem(CALL_S, "cpu", 1e3)
    seen = see(Net().eval(), torch.randn(64, 16), config=config)
    assert seen.chosen == ()
    assert {r.saving_s for r in seen.regions} == {0.0}


def test_chosen_regions_do_not_overlap_and_become_tasks(config: Config, tmp_path: Path) -> None:
    seen = see(Net().eval(), torch.randn(64, 16), config=config)
    paths = [path for region in seen.chosen for path in region.chosen]
    assert paths
    assert not [(a, b) for a in paths for b in paths if a != b and (f"{b}.".startswith(f"{a}.") or not a)]
    tasks = seen.tasks(tmp_path / "tasks")
    assert [region.key for region, _ in tasks] == [region.key for region in seen.chosen]
    assert all(task.graph.nodes for _, task in tasks)


def test_table_and_record_show_what_ran(config: Config) -> None:
    seen = see(Net().eval(), torch.randn(4, 16), config=config)
    text = str(seen)
    assert text.startswith("Net on cpu: 1 call")
    assert "float32[4,16]" in text
    assert [line for line in text.splitlines() if line.startswith("*") and "predicted" in line]
    assert type(seen.workload).model_validate_json(seen.workload.model_dump_json()) == seen.workload


def test_nothing_stays_behind_and_exceptions_pass(config: Config) -> None:
    before, model = nn.Module.__call__, Net()
    with pytest.raises(ZeroDivisionError), warpsmith.capture(model, config=config):
        model(torch.randn(2, 16 // 0))
    assert nn.Module.__call__ is before
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    with pytest.raises(RuntimeError, match="shape"), warpsmith.capture(model, config=config):
        model(torch.randn(2, 5))
    assert nn.Module.__call__ is before
    assert see(model.eval(), torch.randn(2, 16), config=config).regions  # the lock is free again


def test_second_capture_inside_of_one_is_refused(config: Config) -> None:
    before, model = nn.Module.__call__, Net()
    with (
        pytest.raises(UsageError, match="running already"),
        warpsmith.capture(model, config=config),
        warpsmith.capture(model, config=config),
    ):
        pass
    assert nn.Module.__call__ is before


def test_model_that_never_runs_and_what_is_no_model_are_refused(config: Config) -> None:
    class Empty(nn.Module):
        pass

    with pytest.raises(UsageError, match="Empty was never called"), warpsmith.capture(Empty(), config=config):
        pass
    with pytest.raises(NotImplementedError), warpsmith.capture(Empty(), config=config):
        Empty()(torch.ones(1))
    with (
        pytest.raises(UsageError, match=r"expected a torch\.nn\.Module"),
        warpsmith.capture(len, config=config),  # type: ignore[arg-type]
    ):
        pass


def test_reading_inside_of_the_block_is_refused(config: Config) -> None:
    model = Net()
    with warpsmith.capture(model, config=config) as seen:
        model(torch.ones(1, 16))
        with pytest.raises(UsageError, match="read after"):
            str(seen)


class Setting:
    def __init__(self) -> None:
        self.value = 2.0


class Odd(nn.Module):
    def forward(self, value: Any) -> Any:
        return torch.full((2,), value.value) if isinstance(value, Setting) else value


class Whole(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.setting, self.text, self.generator, self.linear = Odd(), Odd(), Odd(), nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.text("text")
        self.generator(number for number in range(3))
        return self.linear(x) + self.setting(Setting())


def test_calls_say_why_they_are_no_tasks(config: Config) -> None:
    reasons = {r.paths[0]: r.reason for r in see(Whole(), torch.ones(1, 2), config=config).regions}
    assert "given a Setting" in reasons["setting"]
    assert "no tensor" in reasons["text"]
    assert "generator" in reasons["generator"]


def test_gradients_and_autocast_are_said(config: Config) -> None:
    model, x = Net(), torch.randn(4, 16)
    with warpsmith.capture(model, config=config) as seen:
        model(x)
    assert {r.reason for r in seen.regions} == {"needs gradients: run it under torch.no_grad()"}
    assert all(r.gradients and r.training for r in seen.regions)
    with (
        torch.no_grad(),
        torch.autocast("cpu", torch.bfloat16),
        warpsmith.capture(model, config=config) as seen,
    ):
        model(x)
    assert {r.autocast for r in seen.regions} == {"bfloat16"}
    assert not seen.chosen


def test_compiled_model_runs_eagerly_and_says_so(config: Config) -> None:
    model = Net().eval()
    seen = see(torch.compile(model, backend="eager"), torch.randn(4, 16), config=config)
    assert seen.model is model
    assert {"Net", "Block", "Linear"} <= {r.kind for r in seen.regions}
    assert "the model is compiled" in str(seen)


def test_example_is_what_the_call_was_given(config: Config) -> None:
    """Also where the call changes it, and where it is expanded."""

    class Clears(nn.Module):
        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return x.zero_() + mask

    model = nn.ModuleDict({"clears": Clears()})
    model.forward = lambda x, mask: model["clears"](x, mask)  # type: ignore[method-assign]
    x, mask = torch.randn(64, 16), torch.ones(1, 16).expand(64, 16)
    before = x.clone()
    seen = see(model, x, mask=mask, config=config)
    region = next(r for r in seen.regions if r.kind == "Clears")
    args, kwargs = seen._recorder.examples[
        seen._recorder.kinds[id(model["clears"])], region.key.partition("-")[2]
    ]
    assert torch.equal(args[0], before)
    assert args[1].stride() == (0, 1)
    assert kwargs == {}


def test_example_has_the_modes_of_its_call(config: Config) -> None:
    model = Net().train()
    model.layers[0].norm.eval()
    seen = see(model, torch.randn(64, 16), config=config)
    region = next(r for r in seen.regions if r.paths[0] == "layers.0" and not r.reason)
    example = seen.example(region)
    model.eval()
    with example.modes_restored():
        assert [m.training for m in model.layers[0].modules()] == [True, False, True]
    assert not any(m.training for m in model.modules())


class Event:
    def __init__(self, ms: float) -> None:
        self.ms = ms

    def elapsed_time(self, end: Event) -> float:
        return end.ms - self.ms


@pytest.mark.parametrize(
    ("device_ms", "host_s", "recording_s", "expected_s"),
    [
        (3.0, 0.003, 0.001, 0.002),  # the device waited for the host, and for the recording
        (3.05, 0.003, 0.001, 0.00205),  # so it did, and its last kernel ran on
        (9.0, 0.003, 0.001, 0.009),  # it was behind all the time
        (3.0, 0.003, 0.0, 0.003),
        (1.0, 0.003, 0.002, 0.0),
    ],
)
def test_recording_is_taken_off_a_gpus_time_where_the_device_waited_for_it(
    device_ms: float, host_s: float, recording_s: float, expected_s: float
) -> None:
    timed = Timed(Event(1.0), Event(1.0 + device_ms), host_s, recording_s)
    assert timed.settle_s() == pytest.approx(expected_s, abs=1e-9)


def test_a_gpus_call_takes_no_less_than_the_calls_inside() -> None:
    """Its device was busy for a part of what the recording took."""
    inside = tuple(Timed(Event(0.0), Event(ms), 0.001, 0.0) for ms in (0.8, 0.7))
    timed = Timed(Event(0.0), Event(2.5), 0.0025, 0.002, inside)
    assert timed.settle_s() == pytest.approx(0.0015)


def test_recorder_sees_other_threads_apart() -> None:
    recorder, model = Recorder(), nn.Linear(2, 2)
    recorder.start()
    try:
        thread = threading.Thread(target=lambda: model(torch.ones(1, 2)))
        thread.start()
        thread.join()
        model(torch.ones(1, 2))
    finally:
        recorder.stop()
    (group,) = recorder.groups.values()
    assert (len(group.times_s), group.outermost_calls) == (2, 2)

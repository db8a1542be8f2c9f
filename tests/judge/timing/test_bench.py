import os
import random
import shutil
import subprocess
from itertools import pairwise
from math import inf, nan, prod
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from relu_task import SPEC, TEXT, relu_task

from warpsmith.errors import JudgeError, TaskError, WarpsmithError
from warpsmith.judge.layout import rows_of
from warpsmith.judge.timing.baselines import audit
from warpsmith.judge.timing.bench import BaselineLost, Bench, explain_slow_baseline, mean_charged_us
from warpsmith.judge.timing.bench_worker import Stopwatch
from warpsmith.judge.timing.input_perturbation import (
    FLOATING,
    LATE_MOST,
    draw_perturbation,
    elements,
    replay_perturbation,
    write_perturbed,
)
from warpsmith.judge.timing.interleaved_rounds import ClocksDisagree, InterleavedRounds, agree, plan
from warpsmith.judge.timing.timed_process import Block, TimedProcess
from warpsmith.processes.buffers import Scratch, ValuesFile
from warpsmith.processes.worker import WorkerDied
from warpsmith.records import (
    BaselineTiming,
    Candidate,
    GraphInput,
    Limit,
    Region,
    Task,
    TensorSpec,
    Unit,
)  # fmt: skip
from warpsmith.runtime.tensors import open_tensors, write_tensors

CALL_SECONDS = st.lists(st.floats(1e-6, 10.0), min_size=1, max_size=4)
CRASH, RIGHT, WRITES = "*(volatile int*)0 = 1;", "y[i] = x[i] > 0 ? x[i] : 0;", "y[i] = 1;"


def provider(scratch: Scratch, spec: TensorSpec = SPEC):
    rng = np.random.default_rng(0)

    def fresh() -> Path:
        file = ValuesFile(scratch.new("values"), [spec], create=True)
        file.array(0)[...] = rng.standard_normal(spec.shape)
        return file.path

    return fresh


def library(folder: Path, body: str) -> Path:
    """A unit's library over the whole relu graph, by hand."""
    source = folder / "unit.cpp"
    source.write_text(
        'extern "C" void warpsmith_run(const void* const* in, void* const* out, void*, void*) {\n'
        "  const float* x = (const float*)in[0]; float* y = (float*)out[0];\n"
        f"  for (int i = 0; i < {SPEC.numel}; i++) {{ {body} }}\n}}\n"
        'extern "C" long warpsmith_workspace_bytes() { return 0; }\n'
    )
    subprocess.run(["g++", "-O2", "-shared", "-fPIC", str(source), "-o", str(folder / "unit.so")], check=True)
    return folder / "unit.so"


def candidate(task: Task) -> Candidate:
    region = Region(nodes=("y",), inputs=("x",), outputs=("y",), signature="relu")
    return Candidate(task_id=task.id, target="cpu", units=(Unit(region=region, language="c++", source=""),))


def relu_of(sample) -> tuple[np.ndarray, np.ndarray]:
    given, returned = ValuesFile(sample.values, [SPEC]).array(0), ValuesFile(sample.outputs, [SPEC]).array(0)
    return np.maximum(given, 0), returned


class TestContents:
    @given(
        st.integers(0, 2**32),
        st.integers(1, 5),
        st.sampled_from(FLOATING),
    )
    @settings(max_examples=30, deadline=None)
    def test_supervisor_rebuilds_what_the_process_saw(self, seed, calls, dtype):
        spec = TensorSpec(shape=(5, 7), dtype=dtype, stride=(9, 1))
        task = relu_task(spec)
        with Scratch() as scratch:
            values = scratch.new("values")
            write_tensors(values, [spec], [torch.randn(5, 7).to(getattr(torch, dtype))])
            seen: list[torch.Tensor] = []
            watch = Stopwatch(task.graph, Recorder(seen), None)
            watch.prepare(str(values), 1)
            watch.time(calls, False, seed, True)
            chosen = replay_perturbation(task.graph.inputs, seed, calls)
            rebuilt = write_perturbed(values, task.graph.inputs, chosen, scratch.new("given"))
            assert torch.equal(open_tensors(rebuilt, [spec])[0], seen[-1])
            assert not torch.equal(open_tensors(values, [spec])[0], seen[-1])

    def test_some_rows_of_what_a_call_returned(self, scratch):
        watch, values = Stopwatch(relu_task().graph, Recorder([]), None), provider(scratch)()
        watch.prepare(str(values), 1)
        whole, rows = scratch.new("whole"), scratch.new("rows")
        watch.outputs(str(whole))
        watch.outputs(str(rows), [(1, 3)])
        assert torch.equal(open_tensors(rows, [rows_of(SPEC, 1, 3)])[0], open_tensors(whole, [SPEC])[0][1:3])
        assert rows.stat().st_size < whole.stat().st_size
        watch.result = watch.result[:1]
        with pytest.raises(TaskError, match="not float32"):
            watch.outputs(str(scratch.new("short")), [(0, 1)])  # of a whole that is too short

    def test_each_call_differs(self, scratch):
        seen: list[torch.Tensor] = []
        watch = Stopwatch(relu_task().graph, Recorder(seen), None)
        watch.prepare(str(provider(scratch)()), 0)
        watch.time(6, False, 1, True)
        assert all(not torch.equal(a, b) for a, b in pairwise(seen))

    def test_parameters_and_short_integers_stay(self):
        short = TensorSpec(shape=(3,), dtype="int64", stride=(1,))
        inputs = (
            GraphInput(name="i", spec=short, role="input", target="i"),
            GraphInput(name="w", spec=SPEC, role="param", target="w"),
            GraphInput(name="x", spec=SPEC, role="input", target="x"),
        )
        for chosen in draw_perturbation(random.Random(0), inputs):
            for index, start, end, step in chosen:
                assert index == 2
                assert 0 <= start < end <= elements(inputs[2])
                assert step == 1 or end == elements(inputs[2])

    @pytest.mark.parametrize("when", ["early", "late"])
    def test_every_long_row_changes(self, when):
        flags = np.zeros(SPEC.numel, bool)
        inputs = (GraphInput(name="x", spec=SPEC, role="input", target="x"),)
        for _, start, end, step in draw_perturbation(random.Random(3), inputs)[when == "late"]:
            flags[start:end:step] = True
        assert flags[: SPEC.numel // 128 * 128].reshape(-1, 128).any(axis=1).all()
        assert not flags.all()

    def test_late_changes_of_a_large_tensor_are_few(self):
        large = TensorSpec(shape=(1 << 26,), dtype="float32", stride=(1,))
        inputs = (GraphInput(name="x", spec=large, role="input", target="x"),)
        ((_, start, end, step),) = draw_perturbation(random.Random(3), inputs)[1]
        assert LATE_MOST // 2 <= (end - start) // step <= LATE_MOST

    @given(st.integers(0, 2**32), st.integers(1, 4), st.sampled_from([(40,), (9, 3), (6, 2, 2)]))
    @settings(max_examples=20, deadline=None)
    def test_rows_of_integers_change_places(self, seed, calls, shape):
        whole = torch.arange(prod(shape)).flip(0).reshape(shape)
        whole[0], whole[1] = whole[1].clone(), whole[0].clone()  # not sorted
        spec = TensorSpec(shape=shape, dtype="int64", stride=whole.stride())
        task = relu_task(spec)
        with Scratch() as scratch:
            values = scratch.new("values")
            write_tensors(values, [spec], [whole])
            seen: list[torch.Tensor] = []
            watch = Stopwatch(task.graph, Recorder(seen), None)
            watch.prepare(str(values), 0)
            watch.time(calls, False, seed, True)
            chosen = replay_perturbation(task.graph.inputs, seed, calls)
            rebuilt = write_perturbed(values, task.graph.inputs, chosen, scratch.new("given"))
            assert torch.equal(open_tensors(rebuilt, [spec])[0], seen[-1])
            assert sorted(seen[-1].tolist()) == sorted(whole.tolist())  # whole rows
            assert watch.spoilt_input() == ""

    @pytest.mark.parametrize("values", [[0, 3, 3, 9, 12], [7, 5, 5, 2, 0], [4] * 5])
    def test_sorted_integers_stay(self, scratch, values):
        spec = TensorSpec(shape=(5,), dtype="int64", stride=(1,))
        task, path = relu_task(spec), scratch.new("values")
        write_tensors(path, [spec], [torch.tensor(values)])
        seen: list[torch.Tensor] = []
        watch = Stopwatch(task.graph, Recorder(seen), None)
        watch.prepare(str(path), 0)
        watch.time(3, False, 1, True)
        assert all(t.tolist() == values for t in seen)

    def test_addresses_move(self, scratch):
        seen: list[torch.Tensor] = []
        recorder = Recorder(seen)
        watch, values = Stopwatch(relu_task().graph, recorder, None), provider(scratch)()
        addresses = set()
        for _ in range(8):
            watch.prepare(str(values), 0)
            addresses.add(recorder.values[0].data_ptr())
            assert recorder.values[0].data_ptr() % 64 == 0
        assert len(addresses) > 1


class Recorder:
    """A callee that keeps a copy of what it was given."""

    def __init__(self, seen: list[torch.Tensor]) -> None:
        self.seen = seen

    def bind(self, values):
        self.values = values

    def reset(self, values):
        raise AssertionError("nothing to reset")

    def call(self):
        self.seen.append(self.values[0].clone())
        return self.seen[-1]

    def find_owned(self, result):
        return []

    def leaves(self, result):
        return [result]


class TestPlan:
    @given(
        st.lists(st.floats(1e-6, 10.0), min_size=1, max_size=4),
        st.floats(0.1, 5.0),
        st.none() | st.integers(2, 40),
    )
    @settings(max_examples=60)
    def test_every_process_gets_calls_in_every_round(self, expected, seconds, asked):
        count, calls = plan(expected, seconds, 0.002, asked)
        assert count >= 2
        assert asked in (None, count)
        assert all(1 <= n <= 40 for n in calls)

    def test_short_calls_get_many_and_long_ones_few(self):
        many, few = plan([1e-5, 1e-5], 0.7, 0.0, None), plan([0.5, 0.5], 0.7, 0.0, None)
        assert many[0] > few[0]
        assert many[1][0] > few[1][0] == 1


class TestBlock:
    def process(self, answer: dict[str, object]) -> TimedProcess:
        worker = Mock()
        worker.process.pid = os.getpid()
        worker.call.return_value = answer
        return TimedProcess("candidate", worker, Path())

    def test_what_was_charged_is_kept(self):
        block = self.process({"ns": [4000, 6000], "between_ns": 7, "charged_ns": 3000}).block(2, 0, 1)
        assert (block.ns, block.charged_ns) == ((4000, 6000), 3000)
        assert mean_charged_us([block, Block((1000,), 0, 9000)]) == 1.0

    def test_nothing_else_counts_as_charged(self):
        assert self.process({"ns": [4000], "between_ns": 7}).block(1, 0, 1).charged_ns == 0
        assert mean_charged_us([]) == 0.0

    @pytest.mark.parametrize("field", ["ns", "between_ns", "charged_ns"])
    @pytest.mark.parametrize("number", [inf, nan, 10**400, "1", True, None])
    def test_a_number_that_is_none_is_the_candidates_fault(self, field, number):
        answer = {"ns": [4000], "between_ns": 7, "charged_ns": 0}
        with pytest.raises(WorkerDied):
            self.process(answer | {field: [number] if field == "ns" else number}).block(1, 0, 1)


class TestBusyMachine:
    """Eager's threads meet at a barrier: when one waits for a processor for 20 ms, a call of 0.1 ms takes 20."""

    def session(self, stalled: int) -> InterleavedRounds:
        process = Mock(spec=TimedProcess)
        process.name = "eager"
        found = InterleavedRounds([process], [], (), Path, cold=False)
        found.blocks["eager"] = [Block((20_000_000,) * 4, 0, 80_000_000, stalled_ns=stalled)] * 3
        return found

    def test_threads_that_wait_for_processors_are_told(self):
        assert self.session(70_000_000).busy() == "the eager process waited for a processor 88% of the time"

    def test_a_little_waiting_is_usual(self):
        assert self.session(8_000_000).busy() == ""

    def test_other_work_on_the_device_is_told(self):
        session = self.session(0)
        session._noisy = [True, False, False, True]
        assert session.busy() == "the GPU had other work most of the time"
        session._noisy = [True, False, False, False]
        assert session.busy() == ""

    def test_a_search_on_a_gpu_has_few_rounds(self):
        assert plan([1e-5, 1e-5], 0.7, 0.0, None, 6)[0] == 6
        assert plan([1e-5, 1e-5], 0.7, 0.0, None)[0] == 12

    def test_then_nothing_is_claimed(self):
        session = self.session(70_000_000)
        eager = session.processes[0]
        fast = Mock(spec=TimedProcess)
        fast.name, fast.isolation = "candidate", ""
        session.processes = [fast, eager]
        session.blocks["candidate"] = [Block((100_000,) * 4, 0, 400_000)] * 3
        for busy in ("", "a process waited"):
            found = Bench._timing(Mock(device="cpu", flush_bytes=0), session, fast, [1], False, busy)
            assert (found.ratios[0].low > 1) is not bool(busy)
            assert found.busy == busy


class TestSlowBaseline:
    """A win over what was as fast before is none: KernelBench's level1/88 was published as 1.61 with 127.5 and 127.2 us in one row."""

    @pytest.mark.parametrize(
        ("candidate_us", "beside_us", "first_us", "told"),
        [
            (127.5, 205.0, 127.2, "compile took 205.0 us beside it, 127.2 us when it was timed first"),
            (127.5, 205.0, 140.0, ""),  # faster than it ever was
            (127.5, 135.0, 127.2, ""),  # within what two measurements differ by
            (210.0, 205.0, 127.2, ""),  # no claim
        ],
    )
    def test_what_only_beats_a_slow_moment_is_told(self, candidate_us, beside_us, first_us, told):
        blocks = {
            name: [Block((round(us * 1000),) * 4, 0, round(us * 4000))] * 3
            for name, us in (("candidate", candidate_us), ("compile", beside_us), ("eager", 2000.0))
        }
        first = {
            "eager": BaselineTiming(name="eager", ok=True, median_us=1990.0, low_us=1990.0, high_us=1990.0),
            "compile": BaselineTiming(name="compile", ok=True, median_us=first_us, low_us=1.0, high_us=999.0),
            "gone": BaselineTiming(name="gone", ok=False, reason="it failed"),
        }
        assert explain_slow_baseline(blocks, "candidate", first) == told


class TestClocks:
    def test_honest_block(self):
        agree(Block((10_000_000,) * 4, 8_000_000, 49_000_000), 8_000_000)

    def test_calls_that_claim_less_than_the_wall_shows(self):
        with pytest.raises(ClocksDisagree, match="more passed"):
            agree(Block((1_000_000,) * 4, 0, 60_000_000), 0)

    def test_time_hidden_between_the_calls(self):
        with pytest.raises(ClocksDisagree):
            agree(Block((1_000_000,) * 4, 50_000_000, 55_000_000), 4_000_000)

    def test_waiting_for_a_busy_machine_is_no_lie(self):
        agree(Block((1_000_000,) * 4, 0, 60_000_000, queued_ns=50_000_000), 0)

    def test_more_time_than_there_was(self):
        with pytest.raises(ClocksDisagree, match="reports"):
            agree(Block((10_000_000,), 0, 9_000_000), 0)


def test_audit_flags_a_baseline_far_from_its_floor():
    floor = Limit(
        seconds=1e-3, least_bytes=1, flops=1, bytes_per_second=1, flops_per_second=1, bound="memory"
    )
    slow = {"eager": BaselineTiming(name="eager", ok=True, median_us=1e5)}
    close = {"eager": BaselineTiming(name="eager", ok=True, median_us=1.5e3)}
    broken = close | {"compile": BaselineTiming(name="compile", ok=False, reason="graph break")}
    assert "more about the baseline" in audit(slow, floor)[0]
    assert audit(close, floor) == ()
    assert "graph break" in audit(broken, floor)[0]


@pytest.mark.slow
@pytest.mark.alone
class TestBench:
    def test_candidates_against_eager(self, scratch, tmp_path):
        task, fresh = relu_task(), provider(scratch)
        bench = Bench(task, scratch=scratch, workdir=tmp_path / "work", threads=1)
        try:
            started = bench.pool.start(("eager",), fresh_values=fresh)
            assert started["eager"].ok
            expected, returned = relu_of(bench.pool.samples["eager"])
            np.testing.assert_array_equal(returned, expected)
            self._honest(bench, task, fresh, library(tmp_path, RIGHT))
            self._wrong(bench, task, fresh, library(tmp_path, WRITES))
            self._crash(bench, task, fresh, library(tmp_path, CRASH))
            self._honest(bench, task, fresh, library(tmp_path, RIGHT))
            bench.pool.restart()
            self._honest(bench, task, fresh, library(tmp_path, RIGHT))
        finally:
            bench.close()

    def test_a_search_has_rows_written_and_a_confirmation_everything(self, scratch, tmp_path):
        task, fresh = relu_task(), provider(scratch)
        bench = Bench(task, scratch=scratch, workdir=tmp_path / "work", threads=1, sampled=3 * 96)
        try:
            bench.pool.start(("eager",), fresh_values=fresh)
            made, path = candidate(task), library(tmp_path, RIGHT)
            libraries = {made.units[0].region.id: path}
            searched = bench.time(made, libraries, fresh).samples[0]
            for sample in (bench.pool.samples["eager"], searched):
                ((first, last),) = sample.rows
                assert last - first == 3
                given = ValuesFile(sample.values, [SPEC]).array(0)
                returned = ValuesFile(sample.outputs, [rows_of(SPEC, first, last)]).array(0)
                np.testing.assert_array_equal(returned, np.maximum(given[first:last], 0))
            (whole,) = bench.time(made, libraries, fresh, rounds=6).samples
            assert whole.rows == ()
            np.testing.assert_array_equal(*relu_of(whole))
        finally:
            bench.close()

    def test_a_baseline_that_worked_must_work_again(self, scratch, tmp_path, monkeypatch):
        """Without it a candidate would be confirmed against fewer."""
        bench = Bench(relu_task(), scratch=scratch, workdir=tmp_path, threads=1)
        start, failures = bench.pool.start, []

        def fails_at_times(*given, **named):
            start(*given, **named)
            if failures:
                bench.pool.timings["eager#2"] = failures.pop()
            return bench.pool.timings

        monkeypatch.setattr(bench.pool, "start", fails_at_times)
        failed = BaselineTiming(name="eager#2", ok=False, reason="out of memory")
        try:
            bench.pool.start(("eager", "eager#2"), fresh_values=provider(scratch))
            failures[:] = [failed]
            assert bench.pool.restart()["eager#2"].ok, "tried twice"
            failures[:] = [failed, failed]
            with pytest.raises(BaselineLost, match=r"eager#2 baseline, which worked before.*out of memory"):
                bench.pool.restart()
            assert bench.pool.restart()["eager#2"].ok, "it is not forgotten"
        finally:
            bench.close()

    def test_only_a_confirmation_refuses_what_beats_a_slow_moment(self, scratch, tmp_path, monkeypatch):
        monkeypatch.setattr(InterleavedRounds, "busy", lambda rounds: "")
        monkeypatch.setattr(
            "warpsmith.judge.timing.bench.explain_slow_baseline", lambda *given: "eager slowed"
        )
        task, fresh = relu_task(), provider(scratch)
        bench = Bench(task, scratch=scratch, workdir=tmp_path / "work", threads=1)
        try:
            bench.pool.start(("eager",), fresh_values=fresh)
            made = candidate(task)
            libraries = {made.units[0].region.id: library(tmp_path, RIGHT)}
            assert bench.time(made, libraries, fresh).timing.busy == ""
            confirmed = bench.time(made, libraries, fresh, rounds=6).timing
        finally:
            bench.close()
        assert (confirmed.busy, confirmed.ratios[0].low) == ("eager slowed", 0.0)

    def test_baselines_whose_times_are_known_are_not_timed(self, scratch, tmp_path):
        known = {"eager": BaselineTiming(name="eager", ok=True, median_us=123.0)}
        bench = Bench(relu_task(), scratch=scratch, workdir=tmp_path, threads=1)
        try:
            timings = bench.pool.start(("eager", "eager#2"), fresh_values=provider(scratch), known=known)
            assert timings["eager"] is known["eager"]
            assert bench.pool.process("eager").expected == pytest.approx(123e-6)
            assert (timings["eager#2"].ok, timings["eager#2"].reason) == (False, "it failed before")
            assert bench.pool.samples == {}
        finally:
            bench.close()

    def _honest(self, bench, task, fresh, path):
        made = candidate(task)
        run = bench.time(
            made, {made.units[0].region.id: path}, fresh, rounds=6, checks=2
        )  # a race may end early
        assert len(run.samples) == 2
        for sample in run.samples:
            expected, returned = relu_of(sample)
            np.testing.assert_array_equal(returned, expected)
        ratio = run.timing.best
        assert ratio is not None
        assert ratio.baseline == "eager"
        assert ratio.low < ratio.median < ratio.high
        assert 0 < run.timing.wall_share <= 1
        assert (run.timing.charged_us, run.timing.rivals_charged_us) == (0, 0), "that is a GPU's"
        assert run.timing.samples == sum(len(b.ns) for b in run.blocks["candidate"])

    def _wrong(self, bench, task, fresh, path):
        made = candidate(task)
        (sample,) = bench.time(made, {made.units[0].region.id: path}, fresh).samples
        expected, returned = relu_of(sample)
        assert (returned == 1).all()
        assert not np.array_equal(returned, expected)

    def _crash(self, bench, task, fresh, path):
        made = candidate(task)
        with pytest.raises(WorkerDied, match="SIGSEGV"):
            bench.time(made, {made.units[0].region.id: path}, fresh)

    def test_a_baseline_that_fails_is_a_value(self, scratch, tmp_path, monkeypatch):
        monkeypatch.setenv("CXX", "/no/such/compiler")
        bench = Bench(relu_task(), scratch=scratch, workdir=tmp_path, threads=1)
        try:
            timings = bench.pool.start(("eager", "compile"), fresh_values=provider(scratch))
            assert timings["eager"].ok
            assert not timings["compile"].ok
            assert timings["compile"].reason
            assert bench.pool.best == "eager"
        finally:
            bench.close()

    def test_no_baseline_is_an_error_of_one_line(self, scratch, tmp_path):
        broken = relu_task(text=TEXT.replace("torch.relu(x)", "1 / 0"))
        bench = Bench(broken, scratch=scratch, workdir=tmp_path, threads=1)
        try:
            with pytest.raises(JudgeError, match="no baseline of relu runs"):
                bench.pool.start(("eager",), fresh_values=provider(scratch))
        finally:
            bench.close()

    def test_timing_before_the_baselines(self, scratch, tmp_path):
        bench = Bench(relu_task(), scratch=scratch, workdir=tmp_path, threads=1)
        with pytest.raises(WarpsmithError, match="not been started"):
            bench.time(candidate(relu_task()), {}, provider(scratch))
        shutil.rmtree(tmp_path)

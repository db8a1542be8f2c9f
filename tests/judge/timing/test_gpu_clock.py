"""What of the GPU's timing can be tested without one: bookkeeping, clock checks, what is logged, the floors."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef

from warpsmith import machine
from warpsmith.errors import JudgeError
from warpsmith.judge.device import gpu_state
from warpsmith.judge.roofline.limits import limit
from warpsmith.judge.roofline.peaks import Peaks, measure_peaks
from warpsmith.judge.timing import cuda_clock, late_changes
from warpsmith.judge.timing.baselines import audit, baseline_names
from warpsmith.judge.timing.bench import Bench
from warpsmith.judge.timing.input_perturbation import replay_perturbation, write_perturbed
from warpsmith.judge.timing.interleaved_rounds import ClocksDisagree, agree_with_batch
from warpsmith.judge.timing.stopwatch import Stopwatch
from warpsmith.judge.timing.timed_process import Block
from warpsmith.processes.buffers import Scratch
from warpsmith.records import (
    BaselineTiming,
    Graph,
    GraphInput,
    GraphOutput,
    Limit,
    Node,
    Task,
    TaskSource,
    TensorSpec,
    Value,
    Variant,
)
from warpsmith.runtime.source import candidate_source
from warpsmith.runtime.tensors import open_tensors, write_tensors
from warpsmith.tasks.regions import make_region

SPEC = TensorSpec(shape=(6, 8), dtype="float32", stride=(10, 1))
IMAGE = TensorSpec(shape=(2, 3, 8, 8), dtype="float32", stride=(192, 64, 8, 1))


def graph(op: str = "aten.relu.default", spec: TensorSpec = SPEC) -> Graph:
    node = Node(name="y", op=op, args=({"v": "x"},), kwargs={}, outputs=(Value(name="y", spec=spec),))
    return Graph(
        inputs=(GraphInput(name="x", spec=spec, role="input", target="x"),),
        nodes=(node,), outputs=(GraphOutput(value="y"),), tree="0",
    )  # fmt: skip


def task(made: Graph) -> Task:
    source = TaskSource(kind="kernelbench", path="t.py", text="")
    return Task(name="t", source=source, variants=(Variant(name="main", overrides={}, graph=made),))


class FakeGpu:
    """Stands in for torch.cuda: a device clock of its own, and work that outlasts the call's second event."""

    def __init__(self) -> None:
        self.now = 0.0  # milliseconds
        self.left = 0.0  # work on another stream that synchronising waits for
        self.notices = 0.01  # after the device is done
        self.tired = 0.0  # by this share of what it waited for the host notices later
        self.asked = 0.0
        self.waits = False  # for the host, which launches late
        self.held_up = 0.0  # before the last changes are done
        self.between = 0.003  # them and the clock's start

    def Event(
        self, enable_timing: bool = False, blocking: bool = False, external: bool = False
    ) -> "FakeEvent":
        assert enable_timing != blocking
        return FakeEvent(self)

    def synchronize(self) -> None:
        self.now, self.left = self.now + self.left, 0.0
        self.now += self.notices + self.tired * (self.now - self.asked)
        self.asked = self.now

    def _sleep(self, cycles: int) -> None:
        self.now += cycles / 2e6

    def empty_cache(self) -> None: ...

    def current_stream(self) -> None: ...


class FakeEvent:
    def __init__(self, gpu: FakeGpu) -> None:
        self.gpu, self.at = gpu, -1.0

    def record(self, stream: object) -> None:
        self.at = self.gpu.now

    def synchronize(self) -> None: ...

    def query(self) -> bool:
        return self.gpu.waits

    def elapsed_time(self, end: "FakeEvent") -> float:
        assert self.at >= 0
        return end.at - self.at


class FakeGraph:
    """Late changes that are made when they are launched, as a graph's are."""

    def __init__(self, changes: late_changes.LateChanges, gpu: FakeGpu) -> None:
        self.changes, self.gpu = changes, gpu

    def replay(self) -> None:
        for sliced in self.changes._inputs:
            sliced.change()
        self.gpu.now += 0.005 + self.gpu.held_up
        self.changes.done.record(None)
        self.gpu.now += self.gpu.between


class Evicted:
    """A cache to evict, which notes how long each eviction is."""

    def __init__(self) -> None:
        self.sweeps: list[int] = []

    def expand(self, sweeps: int, _: int) -> torch.Tensor:
        self.sweeps.append(sweeps)
        return torch.ones(1)


class HostStopwatch(cuda_clock.CudaStopwatch):
    device = "cpu"


class Callee:
    """Takes a millisecond of device time, and leaves `outlasting` behind."""

    def __init__(self, gpu: FakeGpu, outlasting: float = 0.0) -> None:
        self.gpu, self.outlasting = gpu, outlasting
        self.seen: list[torch.Tensor] = []
        self.addresses: set[int] = set()

    def bind(self, values):
        self.values = values
        self.addresses.add(values[0].data_ptr())

    def reset(self, values):
        raise AssertionError("nothing to reset")

    def rest(self, values):
        self.values = values

    def call(self):
        self.gpu.now += 1.0
        self.gpu.left += self.outlasting
        self.seen.append(self.values[0].clone())
        return torch.relu(self.values[0])

    def find_owned(self, result):
        return []

    def leaves(self, result):
        return [result]


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    fake = FakeGpu()
    for name in ("Event", "synchronize", "_sleep", "empty_cache", "current_stream"):
        monkeypatch.setattr(torch.cuda, name, getattr(fake, name))
    monkeypatch.setattr(late_changes.LateChanges, "_capture", lambda changes: FakeGraph(changes, fake))
    return fake


@pytest.fixture
def values(tmp_path: Path) -> Path:
    with Scratch(tmp_path) as scratch:
        path = scratch.new("values")
        write_tensors(path, [SPEC], [torch.randn(6, 8)])
        yield path


def charge(gpu: FakeGpu, values: Path, wait: str, before_ms: float, in_block_ms: float) -> float:
    """Nanoseconds that three calls are charged where a wait before them is longer by so much: in the rehearsals of the block, and in it."""
    watch = HostStopwatch(graph(), Callee(gpu), torch.ones(8))
    watch.prepare(str(values), 1)
    usual_ms = getattr(gpu, wait)
    setattr(gpu, wait, usual_ms + before_ms)
    watch.again(1)
    setattr(gpu, wait, usual_ms + in_block_ms)
    return float(watch.time(3, True, 1, True)["charged_ns"])


class TestStopwatch:
    def test_events_time_each_call_on_new_contents(self, gpu: FakeGpu, values: Path) -> None:
        callee = Callee(gpu)
        watch = HostStopwatch(graph(), callee, torch.ones(8), [(6 * 8 * 4, True)])
        watch.prepare(str(values), 1)
        answer = watch.time(4, True, 7, True)
        assert answer["ns"] == [1_000_000] * 4
        assert answer["between_ns"] >= 0
        assert answer["charged_ns"] == 0
        chosen = replay_perturbation(graph().inputs, 7, 4)
        given = open_tensors(
            write_perturbed(values, graph().inputs, chosen, values.with_name("given")), [SPEC]
        )
        assert torch.equal(callee.seen[-1], given[0])
        assert not torch.equal(callee.seen[-1], callee.seen[-2])
        assert watch.spoilt_input() == ""

    def test_where_no_input_may_change_a_call_is_timed_all_the_same(
        self, gpu: FakeGpu, tmp_path: Path
    ) -> None:
        """Token ids of one sequence: they have no order to change."""
        spec = TensorSpec(shape=(1, 3), dtype="int64", stride=(3, 1))
        with Scratch(tmp_path) as scratch:
            path = scratch.new("values")
            write_tensors(path, [spec], [torch.tensor([[3, 1, 2]])])
            watch = HostStopwatch(graph(spec=spec), Callee(gpu), None)
            watch.prepare(str(path), 1)
            assert watch.time(3, True, 1, True)["ns"] == [1_000_000] * 3

    def test_only_what_a_call_is_given_is_overwritten(self, gpu: FakeGpu) -> None:
        blocks = [(4096, True), (8 << 20, True)]
        clock = cuda_clock.CudaStopwatch.__new__(cuda_clock.CudaStopwatch)
        assert clock._elsewhere(blocks) == []
        clock.made = [8 << 20] * 3
        assert len(Stopwatch._elsewhere(clock, blocks)) > 2, "glibc may hand out others"

    def test_work_that_outlasts_the_second_event_is_charged(self, gpu: FakeGpu, values: Path) -> None:
        watch = HostStopwatch(graph(), Callee(gpu, outlasting=5.0), None)
        watch.prepare(str(values), 1)
        answer = watch.time(1, True, 1, True)
        (ns,) = answer["ns"]
        assert 5_900_000 < ns <= 6_010_000
        assert answer["charged_ns"] == ns - 1_000_000

    @pytest.mark.parametrize("outlasting", [0.0, 0.03, 5.0])
    def test_a_host_that_notices_late_after_a_long_wait_is_not_charged_to_the_call(
        self, gpu: FakeGpu, values: Path, outlasting: float
    ) -> None:
        gpu.tired = 0.03  # that is 30 µs after a call of a millisecond
        watch = HostStopwatch(graph(), Callee(gpu, outlasting), None)
        watch.prepare(str(values), 1)
        watch.time(3, False, 1, False)
        watch.again(1)
        answer = watch.time(3, True, 1, True)
        assert answer["charged_ns"] == pytest.approx(3e6 * outlasting, rel=0.1, abs=1e4)

    def test_a_host_that_notices_late_in_a_block_is_charged_to_nobody(
        self, gpu: FakeGpu, values: Path
    ) -> None:
        """Who leaves work behind in every block pays in every block; a block among honest ones is the host's."""
        callee = Callee(gpu)
        watch = HostStopwatch(graph(), callee, None)
        watch.prepare(str(values), 1)
        charged = []
        for outlasting in (0.0, 0.0, 0.03, 0.0, 0.03, 0.03, 0.03, 0.03):
            callee.outlasting = outlasting
            charged.append(watch.time(3, True, 1, True)["charged_ns"] > 0)
        assert charged == [False] * 6 + [True] * 2

    @pytest.mark.parametrize("outlasting", [0.0, 0.03, 5.0])
    def test_a_host_that_is_slow_while_a_block_is_timed_is_not_charged_to_the_call(
        self, gpu: FakeGpu, values: Path, outlasting: float
    ) -> None:
        watch = HostStopwatch(graph(), Callee(gpu, outlasting), None)
        watch.prepare(str(values), 1)
        gpu.notices += 0.03  # 30 µs later than before the block
        answer = watch.time(3, True, 1, True)
        assert answer["charged_ns"] == pytest.approx(3e6 * outlasting, rel=0.1, abs=1e4)

    @pytest.mark.parametrize(("before_ms", "in_block_ms", "charged_ns"), [
        (0.0, 0.0, 0.0), (0.0, 0.015, 0.0), (0.0, 2.0, 2e6), (2.0, 2.0, 2e6 - 50e3),
    ])  # fmt: skip
    def test_work_that_holds_up_the_last_changes_is_charged(
        self, gpu: FakeGpu, values: Path, before_ms: float, in_block_ms: float, charged_ns: float
    ) -> None:
        """Work on another stream begins in the lead. Who holds up the rehearsals, too, hides fifty microseconds."""
        assert charge(gpu, values, "held_up", before_ms, in_block_ms) == pytest.approx(
            3 * charged_ns, rel=1e-2
        )

    @pytest.mark.parametrize(("more_before_us", "more_in_block_us", "charged_us"), [
        (0.0, 0.0, 0.0), (0.0, 1.5, 0.0), (0.0, 2.0, 2.0), (0.0, 20.0, 20.0), (20.0, 20.0, 19.0),
    ])  # fmt: skip
    def test_work_between_the_last_change_and_the_start_is_charged(
        self, gpu: FakeGpu, values: Path, more_before_us: float, more_in_block_us: float, charged_us: float
    ) -> None:
        """What somebody queues there has seen all that a call is given. Who does so in rehearsals, too, hides a microsecond."""
        charged_ns = charge(gpu, values, "between", more_before_us / 1e3, more_in_block_us / 1e3)
        assert charged_ns == pytest.approx(3e3 * charged_us, rel=1e-2)

    def test_the_lead_grows_while_the_device_waits_for_the_host(self, gpu: FakeGpu, values: Path) -> None:
        watch = HostStopwatch(graph(), Callee(gpu), torch.ones(8))
        watch.prepare(str(values), 1)
        watch.time(9, True, 1, True)
        gpu.waits = True
        watch.time(1, True, 1, True)
        gpu.waits = False
        watch.time(9, True, 1, True)
        assert watch.sweeps == cuda_clock.LEAD_SWEEPS, "one hiccup"
        gpu.waits = True
        watch.time(2, True, 1, True)
        assert watch.sweeps == 2 * cuda_clock.LEAD_SWEEPS
        watch.time(40, True, 1, True)
        assert watch.sweeps == cuda_clock.LEAD_MOST

    def test_an_audit_is_as_long_for_a_process_whose_lead_has_grown(self, gpu: FakeGpu, values: Path) -> None:
        """Otherwise those beside it seem to leave their evictions out."""
        watch = HostStopwatch(graph(), Callee(gpu), torch.ones(8))
        watch.prepare(str(values), 1)
        gpu.waits = True
        watch.time(40, True, 1, True)
        evicted = Evicted()
        watch.flush = evicted  # type: ignore[assignment]
        watch.time(2, 24, 1, True)
        assert evicted.sweeps == [cuda_clock.LEAD_SWEEPS] * 4, "of two calls and two empty ones"
        watch.time(2, 1, 1, True)
        assert evicted.sweeps[4:] == [cuda_clock.LEAD_MOST] * 4

    def test_who_slows_empty_calls_hides_little(self, gpu: FakeGpu, values: Path) -> None:
        watch = HostStopwatch(graph(), Callee(gpu), None)
        gpu.notices = 1.0
        watch.prepare(str(values), 1)
        (ns,) = watch.time(1, True, 1, True)["ns"]
        assert ns == pytest.approx(2e6 - 60e3, rel=1e-3), "the first tail, and fifty microseconds"

    def test_a_batch_waits_for_everything(self, gpu: FakeGpu, values: Path) -> None:
        watch = HostStopwatch(graph(), Callee(gpu, outlasting=1.0), None)
        watch.prepare(str(values), 0)
        answer = watch.time(10, False, 1, False)
        assert len(answer["ns"]) == 10
        assert sum(answer["ns"]) == pytest.approx(20e6, rel=0.01)

    def test_addresses_move_and_values_stay_on_the_device(self, gpu: FakeGpu, values: Path) -> None:
        callee = Callee(gpu)
        watch = HostStopwatch(graph(), callee, None)
        for _ in range(6):
            watch.prepare(str(values), 0)
        assert len(callee.addresses) > 1
        assert watch._load_values(values, [SPEC]) is watch.shared

    def test_inputs_are_given_back(self, gpu: FakeGpu, values: Path) -> None:
        """Between blocks, while others time theirs, and before the next ones are laid out."""
        watch = HostStopwatch(graph(), Callee(gpu), torch.ones(8))
        for let_go in (watch.rest, lambda: watch.prepare(str(values), 0)):
            watch.prepare(str(values), 1)
            watch.time(2, True, 3, True)
            memory = StorageWeakRef(watch.private[0].untyped_storage())
            let_go()
            assert memory.expired()

    def test_an_input_that_was_written_is_seen(self, gpu: FakeGpu, values: Path) -> None:
        callee = Callee(gpu)
        watch = HostStopwatch(graph(), callee, None)
        watch.prepare(str(values), 0)
        watch.time(2, True, 3, True)
        callee.values[0][0, 0] += 1
        assert watch.spoilt_input() == "x"


class TestClocks:
    def test_a_call_that_is_said_to_be_far_shorter_than_in_a_row(self) -> None:
        batch = Block((1_000_000,) * 100, 0, 105_000_000)
        with pytest.raises(ClocksDisagree, match=r"supervisor's clock"):
            agree_with_batch([Block((100_000,) * 5, 0, 0)], batch, 1)

    def test_honest_calls(self) -> None:
        batch = Block((1_000_000,) * 100, 0, 105_000_000)
        agree_with_batch([Block((980_000,) * 5, 0, 0)], batch, 1)

    def test_launching_takes_longer_than_the_kernel(self) -> None:
        batch = Block((12_000,) * 2000, 0, 26_000_000)
        agree_with_batch([Block((3_000,) * 5, 0, 0)], batch, 1)


def test_what_nvidia_smi_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho '1980, 3201, 41, [N/A], 0x0000000000000004'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert gpu_state.read() == {
        "sm_mhz": 1980, "memory_mhz": 3201, "temperature_c": 41, "throttle_reasons": 4
    }  # fmt: skip
    tool.write_text("#!/bin/sh\necho 'No devices were found'\nexit 6\n")
    assert gpu_state.read() == {}


def test_the_gpu_names_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'NVIDIA H200, GPU-1, 580.65.06, 143771, 9.0'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    machine.gpu.cache_clear()
    try:
        assert machine.gpu() == machine.Gpu("NVIDIA H200", "GPU-1", "580.65.06", 143771, "9.0")
        here = machine.describe(device="cuda")
        assert (here.device, here.gpu_driver) == ("NVIDIA H200", "580.65.06")
        assert machine.describe().gpu_driver == ""
    finally:
        machine.gpu.cache_clear()


def test_baselines_of_a_device() -> None:
    assert baseline_names(task(graph()), "cpu") == ("eager", "compile", "compile-max-autotune")
    assert "cuda-graph" in baseline_names(task(graph()), "cuda")
    assert "channels-last" not in baseline_names(task(graph(spec=IMAGE)), "cuda")
    assert "channels-last" in baseline_names(task(graph("aten.convolution.default", IMAGE)), "cuda")


def test_audit_flags_eager_far_from_its_floor() -> None:
    floor = Limit(
        seconds=1e-4, least_bytes=1, flops=1, bytes_per_second=1, flops_per_second=1, bound="memory"
    )
    timings = {
        "eager": BaselineTiming(name="eager", ok=True, median_us=6500.0),
        "compile": BaselineTiming(name="compile", ok=True, median_us=120.0),
    }
    assert audit(timings, floor) == (
        "eager takes 65 times its floor: a speedup over eager alone proves little here",
    )


def test_measured_matrix_rates_decide_the_limit() -> None:
    rates = {1 << 20: 8e12, 1 << 31: 4e12}
    peaks = Peaks(
        threads=0,
        read=rates,
        copy_=rates,
        stream=rates,
        flops=5e13,
        tf32=4e14,
        narrow=8e14,
        last_cache=50 << 20,
    )
    peaks = Peaks.model_validate_json(json.dumps(peaks.model_dump()))
    assert peaks.arithmetic({"float32"}, convolves=False) == 8e14 / 3, "three products of halves are as exact"
    assert peaks.model_copy(update={"narrow": 1e14}).arithmetic({"float32"}, convolves=False) == 5e13
    assert peaks.arithmetic({"float32"}, convolves=True) == 4e14
    assert peaks.arithmetic({"bfloat16"}, convolves=False) == 8e14
    assert peaks.model_copy(update={"narrow": 0.0}).arithmetic({"float16"}, convolves=False) == 32 * 5e13
    assert limit(graph(), peaks).bytes_per_second <= 8e12


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_reason_is_told(tmp_path: Path) -> None:
    with Scratch(tmp_path) as scratch:
        path = scratch.new("values")
        write_tensors(path, [SPEC], [torch.randn(6, 8)])
        bench = Bench(task(graph()), scratch=scratch, workdir=tmp_path / "work", threads=1, device="cuda")
        try:
            with pytest.raises(JudgeError, match="no baseline of t runs: CUDA does not start"):
                bench.pool.start(("eager",), fresh_values=lambda: path)
        finally:
            bench.close()
        with pytest.raises(JudgeError, match="cannot measure the GPU's peak rates: CUDA does not start"):
            measure_peaks(tmp_path, 1, device="cuda")


class TestSource:
    def test_a_unit_runs_on_torchs_stream_and_is_checked(self) -> None:
        made = graph()
        text = candidate_source(made, [make_region(made, ("y",))], "cuda")
        compile(text, "program", "exec")
        assert "ARGUMENTS, RESULT = 5, ctypes.c_int" in text
        assert "check(unit0(" in text
        assert "stream_of(v_y.device.index)" in text
        assert "device='cuda'" in text

    @pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
    @pytest.mark.parametrize("code", [0, 9])
    def test_a_launch_that_fails_is_an_error(
        self, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The program for a GPU, with tensors on the processor and a library that only says how it went."""
        (tmp_path / "unit.cpp").write_text(
            'extern "C" int warpsmith_run(const void* const*, void* const* out, void*, void* stream) {\n'
            f"  *(float*)out[0] = stream == (void*)64;  return {code};\n}}\n"
            'extern "C" unsigned long warpsmith_workspace_bytes() { return 0; }\n'
        )
        unit = tmp_path / "unit.so"
        subprocess.run(["g++", "-shared", "-fPIC", str(tmp_path / "unit.cpp"), "-o", str(unit)], check=True)
        monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 64, raising=False)
        spec = TensorSpec(shape=(6, 8), dtype="float32", stride=(8, 1))
        made, namespace = graph(spec=spec), {}
        text = candidate_source(made, [make_region(made, ("y",))], "cuda").replace("'cuda'", "'cpu'")
        exec(compile(text, "program", "exec"), namespace)
        run = namespace["bind"]([str(unit)])
        if code:
            with pytest.raises(RuntimeError, match=r"not launched \(CUDA error 9\)"):
                run([torch.zeros(6, 8)])
        else:
            assert run([torch.zeros(6, 8)])[0][0, 0] == 1, "the unit was given torch's stream"

    def test_nothing_of_it_on_the_processor(self) -> None:
        made = graph()
        text = candidate_source(made, [make_region(made, ("y",))])
        assert "ARGUMENTS, RESULT = 4, None" in text
        assert "stream_of" not in text
        assert "check(" not in text
        assert "'cuda'" not in text

    def test_what_makes_its_own_tensor_makes_it_on_the_device(self) -> None:
        spec = TensorSpec(shape=(4,), dtype="float32", stride=(1,))
        node = Node(
            name="y", op="aten.full.default", args=([4], 1.0), outputs=(Value(name="y", spec=spec),),
            kwargs={"device": {"device": "cpu"}, "dtype": {"dtype": "float32"}},
        )  # fmt: skip
        made = Graph(inputs=(), nodes=(node,), outputs=(GraphOutput(value="y"),), tree="0")
        assert "torch.device('cuda')" in candidate_source(made, [], "cuda")
        assert "torch.device('cpu')" in candidate_source(made, [])

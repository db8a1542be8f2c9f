"""Timing, baselines and peak rates on a real GPU."""

import shutil
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from warpsmith.errors import WarpsmithError
from warpsmith.judge.roofline.limits import hard_floor, limit
from warpsmith.judge.roofline.peaks import measure_peaks
from warpsmith.judge.timing.baselines import baseline_names
from warpsmith.judge.timing.bench import Bench
from warpsmith.judge.timing.cuda_clock import CudaStopwatch, make_stopwatch
from warpsmith.processes.buffers import Scratch, ValuesFile
from warpsmith.processes.worker import WorkerDied, WorkerFailed
from warpsmith.records import (
    Candidate,
    Graph,
    GraphInput,
    GraphOutput,
    Node,
    Region,
    Task,
    TaskSource,
    TensorSpec,
    Unit,
    Value,
    Variant,
)
from warpsmith.tasks.load import load_task

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")

HOST_S = 4e-4  # that a slow host takes to launch a call
BETWEEN_CYCLES = 40_000  # of the device, some 20 µs
ROWS, COLUMNS = 16384, 1024  # 64 MiB: some 35 µs on an H200
SPEC = TensorSpec(shape=(ROWS, COLUMNS), dtype="float32", stride=(COLUMNS, 1))
TEXT = f"""
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
def get_inputs():
    return [torch.randn({ROWS}, {COLUMNS})]
def get_init_inputs():
    return []
"""
CONVOLUTION = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(16, 32, 3, padding=1)
    def forward(self, x):
        return torch.relu(self.conv(x))
def get_inputs():
    return [torch.randn(8, 16, 64, 64)]
def get_init_inputs():
    return []
"""
KERNEL = """
#include <cuda_runtime.h>
__global__ void relu(const float4* x, float4* y, long n) {{
  long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
  if (i < n) {{ float4 v = x[i]; {body} }}
}}
extern "C" int warpsmith_run(const void* const* in, void* const* out, void*, void* stream) {{
  long n = {elements} / 4;
  relu<<<(n + 255) / 256, {threads}, 0, (cudaStream_t)stream>>>((const float4*)in[0], (float4*)out[0], n);
  return cudaGetLastError();
}}
extern "C" unsigned long warpsmith_workspace_bytes() {{ return 0; }}
"""
RIGHT = "y[i] = make_float4(fmaxf(v.x, 0), fmaxf(v.y, 0), fmaxf(v.z, 0), fmaxf(v.w, 0));"
WRONG = "y[i] = v;"
OUT_OF_BOUNDS = "y[i + (1l << 42)] = v;"


def task() -> Task:
    node = Node(
        name="y", op="aten.relu.default", args=({"v": "x"},), kwargs={}, outputs=(Value(name="y", spec=SPEC),)
    )
    graph = Graph(
        inputs=(GraphInput(name="x", spec=SPEC, role="input", target="x"),),
        nodes=(node,), outputs=(GraphOutput(value="y"),), tree="0",
    )  # fmt: skip
    source = TaskSource(kind="kernelbench", path="relu.py", text=TEXT)
    return Task(name="relu", source=source, variants=(Variant(name="main", overrides={}, graph=graph),))


def candidate(made: Task) -> Candidate:
    region = Region(nodes=("y",), inputs=("x",), outputs=("y",), signature="relu")
    return Candidate(task_id=made.id, target="cuda", units=(Unit(region=region, language="cuda", source=""),))


def library(folder: Path, body: str, threads: int = 256) -> Path:
    folder.mkdir()
    source = folder / "unit.cu"
    source.write_text(KERNEL.format(body=body, threads=threads, elements=SPEC.numel))
    command = ["nvcc", "-O3", "-arch=native", "-shared", "-Xcompiler", "-fPIC", "-cudart", "none"]
    done = subprocess.run(
        [*command, str(source), "-o", str(folder / "unit.so")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return folder / "unit.so"


def provider(scratch: Scratch, spec: TensorSpec = SPEC):
    rng = np.random.default_rng(0)

    def fresh() -> Path:
        file = ValuesFile(scratch.new("values"), [spec], create=True)
        file.array(0)[...] = rng.standard_normal(spec.shape, np.float32)
        return file.path

    return fresh


def reasons(timings) -> str:
    return "\n".join(f"{t.name}: {t.reason}" for t in timings.values() if not t.ok)


class TestBench:
    @needs_nvcc
    def test_candidates_against_eager_and_a_graph_of_it(self, scratch, tmp_path):
        made, fresh = task(), provider(scratch)
        bench = Bench(made, scratch=scratch, workdir=tmp_path / "work", threads=1, device="cuda")
        try:
            started = bench.pool.start(("eager", "cuda-graph"), fresh_values=fresh)
            assert all(t.ok for t in started.values()), reasons(started)
            for sample in bench.pool.samples.values():
                self._check(sample, wrong=False)
            self._timed(bench, made, fresh, library(tmp_path / "right", RIGHT), wrong=False)
            self._timed(bench, made, fresh, library(tmp_path / "wrong", WRONG), wrong=True)
            self._fails(bench, made, fresh, library(tmp_path / "launch", RIGHT, threads=4096), "not launched")
            self._fails(bench, made, fresh, library(tmp_path / "bounds", OUT_OF_BOUNDS), "CUDA|illegal|ended")
            self._timed(bench, made, fresh, tmp_path / "right" / "unit.so", wrong=False)
        finally:
            bench.close()

    def _timed(self, bench, made, fresh, path, wrong):
        unit = candidate(made).units[0]
        run = bench.time(candidate(made), {unit.region.id: path}, fresh, rounds=8, target_seconds=0.6)
        print(run.timing.model_dump_json(indent=1))
        for sample in run.samples:
            self._check(sample, wrong)
        ratio = run.timing.ratio("eager")
        assert ratio is not None
        assert 0.8 < ratio.median < 1.25, "the same bytes in the same pattern take the same time"
        assert run.timing.median_us > 2 * SPEC.nbytes / 8e6, "faster than 8 TB/s"
        assert "rlimits" in run.timing.isolation
        assert run.timing.gpu_state.get("sm_mhz", 0) > 0, run.timing.gpu_state

    def _check(self, sample, wrong):
        given = ValuesFile(sample.values, [SPEC]).array(0)
        returned = ValuesFile(sample.outputs, [SPEC]).array(0)
        assert np.array_equal(returned, np.maximum(given, 0)) is not wrong, sample.name

    def _fails(self, bench, made, fresh, path, text):
        unit = candidate(made).units[0]
        with pytest.raises((WorkerFailed, WorkerDied), match=text) as caught:
            bench.time(candidate(made), {unit.region.id: path}, fresh, rounds=4)
        print(caught.value)

    def test_every_baseline_of_a_convolution(self, scratch, tmp_path):
        file = tmp_path / "convolution.py"
        file.write_text(CONVOLUTION)
        made = load_task(str(file), scratch=scratch)
        specs = [i.spec for i in made.graph.inputs]

        def fresh() -> Path:
            values = ValuesFile(scratch.new("values"), specs, create=True)
            for array in values.arrays():
                array[...] = np.random.default_rng(1).standard_normal(array.shape, np.float32)
            return values.path

        bench = Bench(made, scratch=scratch, workdir=tmp_path / "work", threads=1, device="cuda")
        try:
            timings = bench.pool.start(fresh_values=fresh)
            print({name: (t.median_us, t.reason) for name, t in timings.items()})
            assert set(timings) == set(baseline_names(made, "cuda"))
            assert "channels-last" in timings
            assert all(t.ok for t in timings.values()), reasons(timings)
            expected = self._outputs(bench, made, "eager")
            for name in timings:
                np.testing.assert_allclose(self._outputs(bench, made, name).shape, expected.shape)
        finally:
            bench.close()

    def _outputs(self, bench, made, name):
        specs = [made.graph.specs[o.value] for o in made.graph.outputs]
        found = ValuesFile(bench.pool.samples[name].outputs, specs).array(0)
        assert np.isfinite(found).all(), name
        assert (found >= 0).all(), name
        return found


class SideStream:
    """Does its work on a stream that the events do not see."""

    def __init__(self, hidden: bool) -> None:
        self.side = torch.cuda.Stream() if hidden else torch.cuda.current_stream()
        self.matrix = torch.randn(4096, 4096, device="cuda")

    def bind(self, values):
        self.values = values

    def reset(self, values): ...

    def call(self):
        with torch.cuda.stream(self.side):
            self.matrix @ self.matrix
        return torch.relu(self.values[0])

    def find_owned(self, result):
        return []

    def leaves(self, result):
        return [result]


class TestStopwatch:
    def _median(self, hidden: bool, values: Path) -> float:
        watch = make_stopwatch("cuda", task().graph, SideStream(hidden), 1)
        assert isinstance(watch, CudaStopwatch)
        watch.prepare(str(values), 3)
        times = watch.time(15, True, 1, True)["ns"]
        print(
            f"hidden={hidden} tail={watch.usual_tail / 1e3:.1f} µs, before={watch.usual}",
            sorted(times),
        )
        return float(np.median(times))

    def test_work_on_another_stream_is_charged(self, scratch):
        values = provider(scratch)()
        plain, hidden = self._median(False, values), self._median(True, values)
        assert hidden > 0.6 * plain

    def test_work_between_the_last_change_and_the_start_is_charged(self, scratch):
        """Of a call that takes a few microseconds, so that its own noise does not hide the charge."""

        class Relu(SideStream):
            def call(self):
                return torch.relu(self.values[0])

        watch = make_stopwatch("cuda", task().graph, Relu(False), 1)
        assert isinstance(watch, CudaStopwatch)
        watch.prepare(str(provider(scratch)()), 3)
        honest, launch = watch.time(20, True, 1, True), watch.late.launch

        def launch_and_work() -> None:
            launch()
            torch.cuda._sleep(BETWEEN_CYCLES)

        watch.late.launch = launch_and_work
        charged = watch.time(20, True, 1, True)
        print(f"{np.median(honest['ns'])} ns, then {np.median(charged['ns'])} ns; before={watch.usual}")
        assert honest["charged_ns"] == 0
        assert np.median(charged["ns"]) > np.median(honest["ns"]) + 0.3 * BETWEEN_CYCLES, "2 GHz at most"

    def test_a_slow_host_is_not_charged(self, scratch):
        """The device is kept busy for longer until the call is launched in time."""

        class SlowlyLaunched(SideStream):
            def call(self):
                until = time.perf_counter() + HOST_S
                while time.perf_counter() < until:
                    pass
                return torch.relu(self.values[0])

        watch = make_stopwatch("cuda", task().graph, SlowlyLaunched(False), 1)
        assert isinstance(watch, CudaStopwatch)
        watch.prepare(str(provider(scratch)()), 3)
        first, then = (float(np.median(watch.time(count, True, 1, True)["ns"])) for count in (20, 20))
        print(f"{first / 1e3:.1f} µs, then {then / 1e3:.1f} µs after {watch.sweeps} sweeps")
        assert then < 0.2 * HOST_S * 1e9

    def test_a_cold_call_reads_memory(self, scratch):
        """8 MiB stay in the L2 of most GPUs between calls that do not evict them."""
        spec = TensorSpec(shape=(2048, 1024), dtype="float32", stride=(1024, 1))
        node = Node(
            name="y", op="aten.relu.default", args=({"v": "x"},), kwargs={},
            outputs=(Value(name="y", spec=spec),),
        )  # fmt: skip
        graph = Graph(
            inputs=(GraphInput(name="x", spec=spec, role="input", target="x"),),
            nodes=(node,), outputs=(GraphOutput(value="y"),), tree="0",
        )  # fmt: skip

        class Relu(SideStream):
            def call(self):
                return torch.relu(self.values[0])

        watch = make_stopwatch("cuda", graph, Relu(False), 1)
        watch.prepare(str(provider(scratch, spec)()), 3)
        calls = {True: [], False: []}
        for _ in range(5):  # in turn: a GPU that raises its clock meanwhile favours neither
            for evicted, ns in calls.items():
                ns += watch.time(20, evicted, 1, True)["ns"]
        cold, warm = (float(np.median(calls[evicted])) for evicted in (True, False))
        print(f"cold {cold / 1e3:.2f} µs, warm {warm / 1e3:.2f} µs")
        assert cold > 1.1 * warm


def test_peak_rates(tmp_path):
    peaks = measure_peaks(tmp_path, 1, device="cuda")
    print(peaks.model_dump_json(indent=1))
    assert 5e10 < peaks.memory < 2e13
    assert peaks.bandwidth(1 << 20) >= peaks.memory
    assert peaks.tf32 >= 0.8 * peaks.flops
    assert peaks.narrow > peaks.flops
    assert measure_peaks(tmp_path, 1, device="cuda") == peaks
    floor = hard_floor(limit(task().graph, peaks))
    assert 2e-6 < floor < 2e-3


def test_without_a_working_library_the_reason_is_told(scratch, tmp_path):
    made, fresh = task(), provider(scratch)
    bench = Bench(made, scratch=scratch, workdir=tmp_path / "work", threads=1, device="cuda")
    try:
        bench.pool.start(("eager",), fresh_values=fresh)
        unit = candidate(made).units[0]
        with pytest.raises(WarpsmithError, match="cannot be loaded"):
            bench.time(candidate(made), {unit.region.id: tmp_path / "none.so"}, fresh)
    finally:
        bench.close()

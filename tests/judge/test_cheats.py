"""Cheats as an author of a kernel could write them: each must fail, and its honest twin must pass.

A cheat is stopped where it can be stopped for good: in the built library when it keeps state, leaves threads
behind or changes the processor's mode; in the isolated runner when its bytes are wrong; in the deployed process
when it behaves well only while it is looked at.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from warpsmith.judge.bench_worker import Stopwatch
from warpsmith.judge.building import Built, build_all
from warpsmith.judge.evidence import Case, Evidence
from warpsmith.judge.judge import Judge
from warpsmith.judge.session import Session
from warpsmith.judge.timed_process import Block, TimedProcess
from warpsmith.judge.verify import Limits, Verification, Verifier
from warpsmith.judge.workers import Workers
from warpsmith.judge.zygote import Deployed
from warpsmith.processes.buffers import Scratch
from warpsmith.records import Candidate, Task, Unit
from warpsmith.runtime.tensors import write_tensors
from warpsmith.targets.cpu import CpuTarget
from warpsmith.tasks.load import load_task
from warpsmith.tasks.regions import make_region

ROWS, DIM = 12, 1000
TASK = f"""
import torch
ROWS = {ROWS}
DIM = {DIM}
VARIANTS = {{"ragged": {{"ROWS": 5, "DIM": 67}}}}
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)
def get_inputs():
    return [torch.rand(ROWS, DIM)]
def get_init_inputs():
    return []
"""
UNIT = """// warpsmith-unit: 1
BEFORE
#include "task.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
HEAD
static inline float e(float v) { return EXP; }
static void unit(const in0_t* x, out0_t* y, void* workspace, void* stream) {
  const int64_t R = in0_shape[0], N = in0_shape[1];
  FIRST
#pragma omp parallel for num_threads(THREADS)
  for (int64_t r = 0; r < R; r++) {
    const float* a = x + r * N; float* o = y + r * N;
    float m = a[0], s = 0;
    for (int64_t i = 1; i < N; i++) m = a[i] > m ? a[i] : m;
    for (int64_t i = 0; i < N; i++) { o[i] = e(a[i] - m); s = SUM; }
    for (int64_t i = 0; i < N; i++) o[i] /= s;
  }
  LAST
}
"""
HONEST = {"BEFORE": "", "HEAD": "", "EXP": "expf(v)", "FIRST": "", "SUM": "s + o[i]", "LAST": ""}
LOW = "static float low(float v) { unsigned b; memcpy(&b, &v, 4); b = (b + 0x8000) & 0xffff0000u; memcpy(&v, &b, 4); return v; }"
# 2^t from the exponent's bits and a cubic: right to about 1e-4.
FAST_EXP = """
static float fast(float v) {
  float t = v * 1.442695041f; if (t < -126) t = -126;
  float k = floorf(t), f = t - k, p = 1 + f * (0.695976f + f * (0.224940f + f * 0.079024f));
  int b = ((int)k + 127) << 23; float w; memcpy(&w, &b, 4); return w * p;
}
"""
X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="an instruction of x86")


def source(**parts: str) -> str:
    text = UNIT
    for name, part in (HONEST | parts).items():
        text = text.replace(name, part)
    return text


@dataclass
class Bench:
    task: Task
    target: CpuTarget
    verifier: Verifier
    cases: list[Case]
    scratch: Scratch

    def candidate(self, text: str, **fields: Any) -> Candidate:
        region = make_region(self.task.graph, [n.name for n in self.task.graph.nodes])
        unit = Unit(region=region, language="c++", source=text, **fields)
        return Candidate(task_id=self.task.id, target="cpu", units=(unit,))

    def build(self, text: str, **fields: Any) -> Built:
        return build_all([self.candidate(text, **fields)], self.task, self.target)[0]

    def verify(self, text: str) -> Verification:
        candidate = self.candidate(text)
        built = build_all([candidate], self.task, self.target)[0]
        assert built.status == "ok", built.reason
        return self.verifier.verify(candidate, built.libraries, self.cases)

    def deployed(self, text: str) -> Deployed:
        """As in a candidate's timed process, but here."""
        candidate = self.candidate(text)
        built = build_all([candidate], self.task, self.target)[0]
        assert built.status == "ok", built.reason
        unit = candidate.units[0]
        library = built.libraries["main", unit.code_key].library
        return Deployed(
            self.task.graph, [{"region": unit.region.model_dump(mode="json"), "library": library}]
        )

    def values(self) -> Path:
        path = self.scratch.new("values")
        write_tensors(path, [i.spec for i in self.task.graph.inputs], [torch.randn(ROWS, DIM)])
        return path


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder: Path = tmp_path_factory.mktemp("cheats")
    (folder / "softmax.py").write_text(TASK)
    with Scratch() as scratch:
        task = load_task(str(folder / "softmax.py"), scratch=scratch)
        with Workers(task, scratch, threads=2) as workers:
            evidence = Evidence(task, workers, scratch, own_seed=1, capacity=1 << 28)
            limits = Limits(timeout=5.0, memory_bytes=1 << 29, threads=2)
            cases = [Case("main", "own", 3), Case("main", "normal", 3), Case("ragged", "large", 3)]
            verifier = Verifier(task, evidence, scratch, limits)
            yield Bench(task, CpuTarget(folder / "cache", threads=2), verifier, cases, scratch)


# ------------------------------------------------------------------------------- honest twins

TWINS = {
    "plain": {},
    "a constant table": {
        "HEAD": "static const float one[4] = {1, 1, 1, 1}; static constexpr int LANES = 4;",
        "EXP": "expf(v) * one[(int)(v != v) % LANES]",
    },
    "a table of pointers": {
        "HEAD": 'static const char* const names[] = {"a", "b"};',
        "FIRST": "if (names[x[0] < 0][0] == 'c') return;",
    },
    "its own scratch memory": {
        "FIRST": "float* t = (float*)calloc(N, 4); memcpy(t, x, 4 * N);",
        "LAST": "y[0] += t[0] - x[0]; free(t);",
    },
    "the workspace": {
        "BEFORE": "#define WORKSPACE_BYTES 4096",
        "FIRST": "float* w = (float*)workspace; w[0] = 1;",
        "EXP": "expf(v)",
        "LAST": "y[0] *= w[0];",
    },
    "critical sections": {
        "LAST": "int n = 0;\n#pragma omp parallel num_threads(THREADS)\n{\n#pragma omp critical\nn++;\n}\n"
        "if (n > THREADS) y[0] = 0;",
    },
}


@pytest.mark.parametrize("name", TWINS)
def test_honest_twins_pass(bench: Bench, name: str) -> None:
    found = bench.verify(source(**TWINS[name]))
    assert found.ok, found.reason


# ------------------------------------------------------------------- refused before they run

REFUSED = {
    "a counter of calls": ({"FIRST": "static int calls = 0; if (calls++ > 40) return;"}, "state between calls: calls"),
    "results kept by address": (
        {"HEAD": "static const void* last; static float kept[64];",
         "LAST": "if (last == x) memcpy(y, kept, 256); memcpy(kept, y, 256); last = x;"},
        "state between calls",
    ),
    "a variable in a section of its own": (
        {"HEAD": '__attribute__((section(".mine"))) static int calls = 1;', "FIRST": "if (calls++ > 40) return;"},
        "state between calls: calls",
    ),
    "a thread's variable": (
        {"HEAD": "static __thread int calls;", "FIRST": "if (calls++ > 40) return;"}, "state between calls",
    ),
    "recycled heap blocks": (
        {"FIRST": "void* t = malloc(4096); volatile float* v = (float*)t; int seen = v[99] == 42; v[99] = 42;",
         "LAST": "y[0] += seen; free(t);"},
        "forbidden import: malloc, which returns what an earlier call left",
    ),
    "work that goes on after the return": (
        {"HEAD": 'extern "C" void GOMP_parallel_start(void (*)(void*), void*, unsigned);\nstatic void late(void*) {}',
         "LAST": "GOMP_parallel_start(late, y, THREADS);"},
        "forbidden import: GOMP_parallel_start",
    ),
    "the runtime's clock": (
        {"HEAD": 'extern "C" double omp_get_wtime();', "FIRST": "if (omp_get_wtime() < 0) return;"}, "omp_get_wtime",
    ),
    "rounding by a call": (
        {"HEAD": 'extern "C" int fesetround(int);', "FIRST": "fesetround(0xc00);"}, "forbidden import: fesetround",
    ),
    "a weak import": (
        {"HEAD": 'extern "C" __attribute__((weak)) void omp_set_num_threads(int);',
         "FIRST": "if (omp_set_num_threads) omp_set_num_threads(1);"},
        "forbidden import: omp_set_num_threads",
    ),
    "code at load, spelt by a macro": (
        {"HEAD": "#define EARLY constructor\n__attribute__((EARLY)) static void early() { volatile int n = 1; (void)n; }"}, "runs or redirects code",
    ),
    "an indirect function, spelt by a macro": (
        {"HEAD": "#define CHOOSE ifunc\n"
         'extern "C" { static float yes(float v) { return v; }\n'
         "static float (*choose(void))(float) { return yes; } }\n"
         '__attribute__((CHOOSE("choose"))) static float chosen(float);',
         "LAST": "y[0] = chosen(y[0]);"},
        "indirect function",
    ),
    "the caller's frame": ({"FIRST": "if (!__builtin_frame_address(0)) return;"}, "__builtin_frame_address"),
    "another entry point": (
        {"BEFORE": "#define warpsmith_run other"}, "forbidden export: other",
    ),
}  # fmt: skip
INSTRUCTIONS = {
    "denormals flushed for the whole process": (
        {"LAST": "__builtin_ia32_ldmxcsr(0x9fc0);"},
        "floating-point mode",
    ),
    "the cycle counter": ({"FIRST": "if (__builtin_ia32_rdtsc() % 3 == 0) return;"}, "reads a clock"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_before_it_runs(bench: Bench, name: str) -> None:
    parts, words = REFUSED[name]
    built = bench.build(source(**parts))
    assert built.status == "refused", built.reason
    assert words in " ".join(d.message for b in built.builds for d in b.diagnostics)


@X86
@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_refused_for_an_instruction(bench: Bench, name: str) -> None:
    parts, words = INSTRUCTIONS[name]
    built = bench.build(source(**parts))
    assert built.status == "refused", built.reason
    assert words in built.reason


def test_held_out_shapes_cannot_be_dodged_in_secret(bench: Bench) -> None:
    """An assertion that speaks like a stated requirement: stated, the unit is specialised; else it fails."""
    need = "in0_shape[1] % 8 == 0"
    text = source(HEAD=f'static_assert({need}, "requires: {need}");')
    assert bench.build(text).status == "build-failed"
    assert bench.build(source(), requires=(need,)).status == "ok"


# ---------------------------------------------------------------------- wrong in the runner

WRONG = {
    "exp to four digits": {"HEAD": FAST_EXP, "EXP": "fast(v)"},
    "a sum in bf16": {"HEAD": LOW, "SUM": "low(s + o[i])"},
    "a sum in fp16": {"SUM": "(float)(_Float16)(s + o[i])"},
    "every other term of a sum": {"SUM": "i % 2 ? s : s + 2 * o[i]"},
    "small terms left out": {"EXP": "v < -12 ? 0 : expf(v)"},
    "the main shape only": {"LAST": f"if (N != {DIM}) y[N - 1] = 0.5f;"},
    "positive inputs only": {"LAST": "for (int64_t i = 0; i < N; i++) if (x[i] < 0) y[i] = 0;"},
    "what lies behind the input": {"LAST": "y[0] += 0 * ((volatile const float*)x)[R * N];"},
    "a workspace taken for zeroed": {
        "BEFORE": "#define WORKSPACE_BYTES 64", "LAST": "y[0] += ((volatile float*)workspace)[0];",
    },
    "more threads than allowed": {"LAST": "#pragma omp parallel num_threads(THREADS + 7)\n{ if (y[0] < -1) y[0] = 0; }"},
    "a workspace beyond all memory": {"BEFORE": "#define WORKSPACE_BYTES (1ull << 42)"},
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_in_the_runner(bench: Bench, name: str) -> None:
    found = bench.verify(source(**WRONG[name]))
    assert found.status in ("incorrect", "crashed"), name
    assert found.reason


# -------------------------------------------------------------- well-behaved when looked at

MARK = 123456.0
RECYCLER = """
  PLACE
  int again = 1;
  for (int64_t r = 0; r < R; r++) again &= kept[r * N] > 0 && kept[r * N] <= 1;
"""
AGAIN = f"for (int64_t i = 0; i < R * N; i++) kept[i] = y[i]; if (again) y[3] = {MARK}f;"


@pytest.mark.parametrize("overwritten", [False, True])
@pytest.mark.parametrize(
    ("before", "place"),
    [("", "float* kept = y;"), ("#define WORKSPACE_BYTES 48000", "float* kept = (float*)workspace;")],
)
def test_what_the_last_call_left_is_gone(bench: Bench, before: str, place: str, overwritten: bool) -> None:
    """A kernel that finds its last results in recycled memory may leave most of them as they are. This one says
    so when it finds them; it does find them where nothing overwrites the memory.
    """
    text = source(BEFORE=before, FIRST=RECYCLER.replace("PLACE", place), LAST=AGAIN)
    callee = bench.deployed(text)
    watch = Stopwatch(bench.task.graph, callee, None, callee.blocks if overwritten else ())
    watch.prepare(str(bench.values()), 1)
    found = False
    for seed in range(6):
        watch.time(1, False, seed, True)
        found |= watch.result[0][0, 3].item() == MARK
    if not overwritten and not found:
        pytest.skip("the allocator happened to hand out other memory")
    assert found is not overwritten


def test_an_input_used_as_notebook_is_seen(bench: Bench) -> None:
    callee = bench.deployed(source(LAST="((float*)x)[R * N - 1] += 1;"))
    watch = Stopwatch(bench.task.graph, callee, None, callee.blocks)
    watch.prepare(str(bench.values()), 0)
    watch.time(2, False, 1, True)
    assert watch.spoilt_input() == bench.task.graph.inputs[0].name
    honest = bench.deployed(source())
    watch = Stopwatch(bench.task.graph, honest, None, honest.blocks)
    watch.prepare(str(bench.values()), 1)
    watch.time(3, False, 1, True)
    assert watch.spoilt_input() == ""


class Lengths(Session):
    """Notes how many calls a sampled block had."""

    def sample(self, process: TimedProcess) -> Any:
        return self._last[process.name][2]


class Patient:
    """A process that answers at once."""

    name, expected = "candidate", 1e-5

    def prepare(self, values: Path, warmup: int) -> float:
        return 0.0

    def settle(self) -> None: ...

    def block(self, n: int, cold: bool, seed: int) -> Block:
        return Block((10,) * n, 0, 10 * n)


def test_counting_calls_does_not_tell_which_is_checked() -> None:
    """Whoever works only in the last calls of a block is sampled in the others nearly always."""
    process: Any = Patient()
    seen: list[int] = []
    for _ in range(200):
        session = Lengths([process], [Path("values")], (), lambda stem: Path(stem), cold=False)
        session.run(4, [40], checks=1)
        seen += session.samples  # type: ignore[arg-type]
        assert all(1 <= len(b.ns) <= 40 for b in session.blocks["candidate"])
    assert len(seen) == 200
    assert sum(n < 37 for n in seen) > 150
    assert len(set(seen)) > 30


# ------------------------------------------------------------------------------- end to end

# In the runner an input lies between guard bands; in a user's process it does not.
SNIFF = "const int guarded = ((volatile const unsigned*)x)[-1] == 0xfff9fff9u;"


@pytest.mark.slow
def test_a_kernel_that_knows_the_runner_is_caught_as_deployed(tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text(TASK)
    with Scratch() as scratch:
        task = load_task(str(tmp_path / "task.py"), scratch=scratch)
        target = CpuTarget(tmp_path / "cache", threads=2)
        with Judge(
            task, target, scratch=scratch, workdir=tmp_path / "work", seed=7, baselines=("eager",), quick=True,
            peaks_cache=tmp_path / "cache",
        ) as judge:  # fmt: skip
            judge.open()
            region = make_region(task.graph, [n.name for n in task.graph.nodes])

            def made(text: str) -> Candidate:
                unit = Unit(region=region, language="c++", source=text)
                return Candidate(task_id=task.id, target="cpu", units=(unit,))

            skips = made(source(FIRST=f"{SNIFF} if (!guarded) {{ memset(y, 0, 4 * R * N); return; }}"))
            spoils = made(source(FIRST=SNIFF, LAST="if (!guarded) ((float*)x)[R * N - 1] += 1;"))
            honest, skipped, spoilt = judge.evaluate([made(source()), skips, spoils])
    assert honest.status == "ok", honest.reason
    assert skipped.status == "incorrect"
    assert "timed run" in skipped.reason
    assert spoilt.status == "crashed"
    assert "changed the input" in spoilt.reason

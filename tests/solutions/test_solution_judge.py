"""Solutions on one small task, through the judge from end to end: real processes, real compiler."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from warpsmith.errors import UsageError
from warpsmith.solutions.judge import SolutionJudge
from warpsmith.solutions.verdict import SolutionVerdict

pytestmark = pytest.mark.slow
Judged = Callable[..., SolutionVerdict]
TARGET = "cpu"
SECONDS = f"287.{time.time_ns() % 10**6}"  # of a sleep that is found again by them
TASK = """
import torch
BATCH = 64
DIM = 300
VARIANTS = {"ragged": {"BATCH": 5, "DIM": 67}}
class Model(torch.nn.Module):
    def __init__(self, dim, out):
        super().__init__()
        self.linear = torch.nn.Linear(dim, out)
    def forward(self, x):
        return torch.relu(self.linear(x)) * 2.0
def get_inputs():
    return [torch.rand(BATCH, DIM)]
def get_init_inputs():
    return [DIM, 128]
"""
HEAD = """
import ctypes, glob, os, subprocess, sys, tempfile, threading, time
import torch
BEFORE
class ModelNew(torch.nn.Module):
    def __init__(self, dim, out):
        super().__init__()
        INIT
    def forward(self, x):
        BODY
"""
LINEAR = "self.linear = torch.nn.Linear(dim, out)"
HONEST = "torch.relu(self.linear(x)) * 2.0"
NATIVE = r'''
SOURCE = """
#include <cstdint>
extern "C" void f(const float* x, const float* w, const float* b, float* o, int64_t n, int64_t k, int64_t m) {
  for (int64_t i = 0; i < n; i++) for (int64_t j = 0; j < m; j++) {
    float s = 0;
    for (int64_t q = 0; q < k; q++) s += x[i * k + q] * w[j * k + q];
    s += b[j]; o[i * m + j] = s > 0 ? 2 * s : 0;
  }
}
"""
folder = tempfile.mkdtemp()
open(folder + "/f.cpp", "w").write(SOURCE)
subprocess.run(["g++", "-O3", "-ffast-math", "-march=native", "-shared", "-fPIC", folder + "/f.cpp",
                "-o", folder + "/f.so"], check=True)
lib = ctypes.CDLL(folder + "/f.so")
'''
CALL = """
        x, w, b = x.contiguous(), self.linear.weight, self.linear.bias
        o = torch.empty(x.shape[0], w.shape[0])
        lib.f(*(ctypes.c_void_p(t.data_ptr()) for t in (x, w, b, o)),
              *(ctypes.c_int64(n) for n in (*x.shape, w.shape[0])))
        return o
"""


def solution(body: str, init: str = LINEAR, before: str = "") -> str:
    return HEAD.replace("BEFORE", before).replace("INIT", init).replace("BODY", body)


@pytest.mark.alone  # it is timed
def test_native_code_of_its_own_is_a_kernel(judged: Judged) -> None:
    found = judged(solution(CALL, before=NATIVE), timed=True)
    assert (found.verdict, found.label, found.rule) == ("correct", "kernel", ""), found.reasons
    assert set(found.speedup) == {"eager", "best"}
    assert found.speedup["best"].low <= found.speedup["best"].median <= found.speedup["best"].high
    assert found.parameters == "name"
    assert found.labels[:2] == ("general", "deterministic")
    assert "lower than a unit's" in found.isolation
    assert {c.variant for c in found.checks} == {"main", "ragged", "secret"}


@pytest.mark.parametrize(
    ("text", "label", "parameters"),
    [
        (solution(f"return {HONEST}"), "none", "name"),
        # What was imported before the fork is not gone through again by its collector.
        (solution(f"return {HONEST}", before="import gc\nassert gc.get_freeze_count() > 10**5"), "none", "name"),
        (solution(f"try:\n            return lib.g(x)\n        except AttributeError:\n            return {HONEST}", before=NATIVE), "none", "name"),
        (
            solution(
                "return torch.addmm(self.b, x, self.w).relu_()",
                "l = torch.nn.Linear(dim, out); self.w, self.b = l.weight.detach().t() * 2, l.bias.detach() * 2",
            ),
            "library",
            "seed",
        ),
        (
            solution(
                "return torch.addmm(self.b, x, self.w).relu_()",
                LINEAR + "; self.w, self.b = (t.detach().t() * 2 for t in self.linear.parameters())",
            ),
            "library",
            "seed",
        ),
    ],
    ids=["reference", "frozen", "fallback", "other-names", "folded"],
)  # fmt: skip
def test_right_answers_by_torch(judged: Judged, text: str, label: str, parameters: str) -> None:
    found = judged(text)
    assert (found.verdict, found.label, found.parameters) == ("correct", label, parameters), found.reasons
    assert ("ignores-parameters" in found.labels) is (parameters == "seed")
    assert found.labels[0] == "general"


@pytest.mark.parametrize(
    ("text", "verdict", "rule"),
    [
        (solution("return torch.relu(self.linear(x.bfloat16().float())) * 2"), "incorrect", "budget"),
        (solution(f"y = {HONEST}; return torch.empty(y.shape[0], y.shape[1] + 1)[:, :-1].copy_(y)"), "incorrect", "stride"),
        (solution(f"return ({HONEST}).double()"), "incorrect", "dtype"),
        (solution(f"return ({HONEST})[:1]"), "incorrect", "shape"),
        (solution(f"return [{HONEST}, x]"), "incorrect", "output-type"),
        (solution(f"return ({HONEST}).as_subclass(type('T', (torch.Tensor,), {{}}))"), "incorrect", "output-type"),
        (solution(f"y = {HONEST}; x.zero_(); return y"), "incorrect", "input-mutated"),
        (solution("return torch.empty(len(x), 128)"), "incorrect", "non-finite"),
        (solution("raise ValueError('no')"), "incorrect", "raised"),
        (solution("ctypes.string_at(8)"), "incorrect", "crashed"),
        (solution(f"return {HONEST} if x.shape[1] == 300 else x @ x.t()"), "incorrect", "shape"),
        (solution(f"return {HONEST} * (1 if x.shape[1] == 300 else 2)"), "incorrect", "budget"),
        (solution(f"return {HONEST}", before="time.perf_counter_ns = lambda: 1"), "invalid", "tampered"),
        (solution(f"sys._getframe(1)\n        return {HONEST}"), "invalid", "tampered"),
        pytest.param(
            solution(
                "o = torch.empty(len(x), 128)\n        def later():\n            time.sleep(1e-3); "
                f"o.copy_(({HONEST}).detach())\n        threading.Thread(target=later).start()\n        return o"
            ),
            "invalid",
            "output-late",
            marks=pytest.mark.alone,  # a race
        ),
        (
            solution(
                "[os.write(int(f), b'{}\\n') for f in os.listdir('/proc/self/fd') if f.isdigit() and "
                "'answer' in os.path.realpath('/proc/self/fd/' + f)]\n        return " + HONEST
            ),
            "invalid",
            "forged",
        ),
        (
            solution(
                "found = [f for f in glob.glob('/dev/shm/*/*') + glob.glob('/tmp/warpsmith*/*')]\n"
                f"        return {HONEST} if not found else x"
            ),
            "correct",  # it sees nothing there
            "",
        ),
    ],
)  # fmt: skip
def test_wrong_answers_by_their_rule(judged: Judged, text: str, verdict: str, rule: str) -> None:
    found = judged(text)
    assert (found.verdict, found.rule) == (verdict, rule), found.reasons
    assert found.rule == "" or found.reasons


def test_an_error_at_another_shape_makes_it_specialised(judged: Judged) -> None:
    found = judged(solution(f"assert x.shape[1] == 300, 'only 300'\n        return {HONEST}"))
    assert (found.verdict, found.labels[0]) == ("correct", "specialised")
    assert any("only 300" in r and "ragged" in r for r in found.reasons)


@pytest.mark.alone  # it is timed
def test_what_is_remembered_from_untimed_calls_fails(judged: Judged) -> None:
    """Right whenever it has not seen the address before; in a timed block, inputs stay and contents change."""
    body = f"""
        key = x.data_ptr()
        if key not in seen:
            seen[key] = {HONEST}
        return seen[key].clone()
"""
    found = judged(solution(body, before="seen = {}"), timed=True)
    assert found.verdict != "correct", found.reasons
    assert found.speedup == {}


def test_a_process_left_behind_is_killed(judged: Judged) -> None:
    before = f"subprocess.run('setsid sleep {SECONDS} &', shell=True, check=True)"
    assert judged(solution(f"return {HONEST}", before=before)).verdict == "correct"
    deadline = time.monotonic() + 5
    while (alive := _sleeping()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive


def _sleeping() -> list[int]:
    found = psutil.process_iter(["cmdline"])
    return [p.pid for p in found if p.info["cmdline"] == ["sleep", SECONDS]]


def test_nothing_is_left_in_the_folders(judge: SolutionJudge) -> None:
    assert [p.name for p in judge._root.iterdir()] == ["zygote"]
    assert list(judge._starter.given.iterdir()) == []


def test_no_solution_at_all(judge: SolutionJudge, tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text("x = 1\n")
    with pytest.raises(UsageError, match="ModelNew"):
        judge.judge(tmp_path / "s.py")


# On addresses: torch's own headers would take most of a minute to compile.
EXTENSION = '''
from torch.utils.cpp_extension import load_inline
SOURCE = """
#include <cstdint>
#include <pybind11/pybind11.h>
void twice_relu(uintptr_t y, uintptr_t o, int64_t n) {
  auto a = reinterpret_cast<const float*>(y); auto p = reinterpret_cast<float*>(o);
  for (int64_t i = 0; i < n; i++) p[i] = a[i] > 0 ? 2 * a[i] : 0;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("twice_relu", &twice_relu); }
"""
ext = load_inline(name="twice_relu_ext", cpp_sources=SOURCE, extra_cflags=["-O0"], no_implicit_headers=True)
'''
BY_ADDRESS = """
        y = self.linear(x)
        o = torch.empty_like(y)
        ext.twice_relu(y.data_ptr(), o.data_ptr(), y.numel())
        return o
"""


@pytest.mark.timeout(600)
def test_an_inline_extension_is_built_once_and_is_a_kernel(judged: Judged) -> None:
    found = judged(solution(BY_ADDRESS, before=EXTENSION))
    assert (found.verdict, found.label) == ("correct", "kernel"), found.reasons
    assert found.trace is not None
    assert any("twice_relu_ext" in name for name in found.trace.objects)
    assert "aten.relu" in found.reasons[-1]

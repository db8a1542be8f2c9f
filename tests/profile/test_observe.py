"""The whole profile of a small candidate, with the real trusted processes."""

from __future__ import annotations

from pathlib import Path

import pytest
from made import HEAD, SIGNATURE

from warpsmith.cli.profile import print_observation
from warpsmith.processes.buffers import Scratch
from warpsmith.profile.observation import Observation, not_available
from warpsmith.profile.observe import profile, summarize_sanitizers
from warpsmith.profile.sanitizer import Finding, SanitizerReport
from warpsmith.records import Candidate, Limit, Unit
from warpsmith.targets.cpu import CpuTarget
from warpsmith.tasks.load import load_task
from warpsmith.tasks.regions import make_region

TASK = """
import torch
ROWS = 16
VARIANTS = {"ragged": {"ROWS": 3}}
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
def get_inputs():
    return [torch.randn(ROWS, 33)]
def get_init_inputs():
    return []
"""
LIMIT = Limit(
    seconds=1e-6, least_bytes=4224, flops=528, bytes_per_second=1e10, flops_per_second=1e11, bound="memory"
)
RELU = "for (int64_t i = 0; i < in0_numel; i++) out0[i] = in0[i] > 0 ? in0[i] : 0;"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "findings"), [(RELU, 0), (RELU + "volatile float y = in0[in0_numel]; (void)y;", 2)]
)
def test_every_observer_speaks(
    body: str, findings: int, tmp_path: Path, target: CpuTarget, scratch: Scratch
) -> None:
    (tmp_path / "task.py").write_text(TASK)
    task = load_task(str(tmp_path / "task.py"), scratch=scratch)
    region = make_region(task.graph, [n.name for n in task.graph.nodes])
    unit = Unit(region=region, language="c++", source=HEAD + SIGNATURE.format(body=body))
    candidate = Candidate(task_id=task.id, target="cpu", units=(unit,))
    found = {
        f.observer: f
        for f in profile(
            candidate,
            task,
            target,
            scratch=scratch,
            cache_dir=target.cache.directory,
            limit=LIMIT,
            seconds=2e-6,
        )
    }
    assert list(found) == ["roofline", "compiler", "clang-tidy", "torch profiler", "sanitizers"]
    assert found["roofline"].metrics["share of the limit"] == pytest.approx(0.5)
    assert found["torch profiler"].available, found["torch profiler"].reason
    assert found["sanitizers"].metrics == {"findings": findings}, found["sanitizers"].notes


def test_findings_are_lines_and_nothing_run_is_not_clean() -> None:
    finding = Finding(tool="address", variant="main", region="r", message="read of 4 bytes")
    seen = summarize_sanitizers(SanitizerReport(findings=(finding,), ran=("address",)))
    assert seen.metrics == {"findings": 1}
    assert "address at main: read of 4 bytes" in seen.notes
    nothing = summarize_sanitizers(SanitizerReport(not_available=("sanitizers: no runtime",)))
    assert (nothing.available, nothing.reason) == (False, "sanitizers: no runtime")


def test_an_observation_is_printed_in_lines(capsys: pytest.CaptureFixture[str]) -> None:
    print_observation(
        Observation(observer="a", subject="r1", metrics={"bytes": 123456.0, "share": 0.25}, notes=("n",))
    )
    print_observation(not_available("b", "is not installed"))
    assert capsys.readouterr().out == (
        "a (r1)\n  bytes: 123,456\n  share: 0.25\n  n\nb: not available: is not installed\n"
    )

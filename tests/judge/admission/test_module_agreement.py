"""A module that disagrees with its graph on a GPU is looked at once more without TF32."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from warpsmith.errors import TaskError
from warpsmith.judge.admission.module_agreement import (
    ILL_CONDITIONED,
    TF32_NOTE,
    ModuleAgreement,
    check_module,
    quarantine,
)
from warpsmith.judge.timing.bench_worker import BaselineProcess
from warpsmith.judge.timing.interleaved_rounds import TimedSample
from warpsmith.records import Admission, Check


class Process:
    """The eager module's process: what it was asked."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.asked = folder, list[Any]()

    def allow_tf32(self, allowed: bool) -> None:
        self.asked.append(allowed)

    def prepare(self, values: Path, warmup: int, alone: bool = True) -> float:
        self.asked.append("prepare")
        return 0.0

    def outputs(self, path: Path, rows: Any = ()) -> Path:
        path.write_text("outputs without TF32")
        return path

    def rest(self) -> None:
        self.asked.append("rest")


class Verifier:
    """Says what it is told to say with TF32, and without."""

    def __init__(self, device: str, with_tf32: bool, without: bool, error: float = 40.0) -> None:
        self.task = SimpleNamespace(name="unet")
        self.evidence = SimpleNamespace(workers=SimpleNamespace(device=device))
        self.answers, self.error = {True: with_tf32, False: without}, error
        self.seen: list[tuple[str, bool]] = []

    def check_whole(
        self, variant: str, sample: TimedSample, seed: int, draws: int, tf32: bool = True
    ) -> Check:
        self.seen.append((sample.outputs.read_text(), tf32))
        assert sample.values.read_text().strip() == "values"  # as the judge asks for them, to look closer
        ok = self.answers[tf32]
        if ok:
            return Check(variant=variant, family="own", where="whole", ok=True)
        detail = f"{self.error} times the budget"
        return Check(
            variant=variant,
            family="own",
            where="whole",
            ok=False,
            rule="budget",
            detail=detail,
            error=self.error,
        )


def look(tmp_path: Path, verifier: Verifier) -> tuple[ModuleAgreement, Process]:
    process, outputs, values = Process(tmp_path), tmp_path / "outputs", tmp_path / "values"
    outputs.write_text("outputs"), values.write_text("values" + 4096 * " ")
    sample = TimedSample("eager", outputs, (), values, (), (), tmp_path / "given")
    try:
        return check_module(verifier, process, sample, "main", 1), process  # type: ignore[arg-type]
    finally:
        assert not outputs.exists()
        assert values.exists()
        assert sorted(p.name for p in tmp_path.iterdir()) == ["values"]


def test_module_that_agrees_is_called_once(tmp_path: Path) -> None:
    agreement, process = look(tmp_path, Verifier("cuda", True, False))
    assert (agreement, process.asked) == (ModuleAgreement(), [])


def test_module_that_differs_in_tf32_alone_is_its_graph(tmp_path: Path) -> None:
    verifier = Verifier("cuda", False, True)
    agreement, process = look(tmp_path, verifier)
    assert TF32_NOTE in agreement.note
    assert "40.0 times" in agreement.note
    assert not agreement.doubt
    assert process.asked == [False, "prepare", "rest", True]
    assert verifier.seen == [("outputs", True), ("outputs without TF32", False)]


def test_module_that_differs_in_full_float32_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="unet: the exported graph and the module disagree: 40"):
        look(tmp_path, Verifier("cuda", False, False))


def test_module_on_the_cpu_has_one_look(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="disagree"):
        look(tmp_path, Verifier("cpu", False, True))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_module_that_is_off_by_little_in_any_arithmetic_is_quarantined(tmp_path: Path, device: str) -> None:
    agreement, _ = look(tmp_path, Verifier(device, False, False, error=1.31))
    assert ILL_CONDITIONED in agreement.doubt
    admitted = Admission(admitted=True, mutants={"dropped relu": "budget"})
    assert not quarantine(admitted, agreement.doubt).admitted
    assert quarantine(admitted, agreement.doubt).reasons == (agreement.doubt,)
    assert quarantine(admitted, "") is admitted


def test_eager_process_turns_tf32_off_and_back_to_what_it_was() -> None:
    process = BaselineProcess()
    before = torch.backends.cudnn.allow_tf32
    process.kind, process.tf32 = "eager", (True, False)
    try:
        process.allow_tf32(False)
        assert not torch.backends.cudnn.allow_tf32
        process.allow_tf32(True)
        assert torch.backends.cudnn.allow_tf32
        assert not torch.backends.cuda.matmul.allow_tf32
    finally:
        torch.backends.cudnn.allow_tf32 = before


def test_arithmetic_of_a_compiled_baseline_stays() -> None:
    process = BaselineProcess()
    process.kind, process.tf32 = "cuda-graph", (True, True)
    with pytest.raises(RuntimeError, match="cuda-graph"):
        process.allow_tf32(False)

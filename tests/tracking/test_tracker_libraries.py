"""The adapters against the real libraries: what they wrote is read back by the library itself. One that is not installed is skipped."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from warpsmith.errors import UsageError
from warpsmith.tracking import Ending, TrackedRun, Tracker

RUN = TrackedRun("run-1", "softmax", "cpu", "suite-1", {"seed": "7", "budget.seconds": "30.0"})


def play(tracker: Tracker, folder: Path, status: str = "win") -> None:
    """Play a short run of two candidates."""
    folder.mkdir(exist_ok=True)
    (folder / "report.md").write_text("# softmax: win\n")
    (folder / "unit0.cpp").write_text("// warpsmith-unit: 1\n")
    tracker.begin(RUN)
    tracker.log({"best/low": 1.0, "candidates/judged": 1.0}, 1)
    tracker.log({"best/low": 1.25, "candidates/judged": 2.0}, 2)
    files = (folder / "report.md", folder / "unit0.cpp")
    tracker.finish(Ending(status, "softmax: win: 1.25x", {"final/low": 1.25}, files))


# ---------------------------------------------------------------- TensorBoard


def test_tensorboard_reads_what_was_written(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    from warpsmith.tracking.tensorboard_tracker import TensorBoardTracker

    play(TensorBoardTracker(str(tmp_path / "board")), tmp_path / "files")
    read = EventAccumulator(str(tmp_path / "board" / "softmax-run-1"))
    read.Reload()
    assert [(e.step, e.value) for e in read.Scalars("best/low")] == [(1, 1.0), (2, 1.25)]
    assert [(e.step, e.value) for e in read.Scalars("final/low")] == [(2, 1.25)]
    texts = {
        tag.removesuffix("/text_summary"): read.Tensors(tag)[0].tensor_proto.string_val[0].decode()
        for tag in read.Tags()["tensors"]
    }
    assert "| seed | 7 |" in texts["settings"]
    assert texts["report.md"] == "# softmax: win\n"
    assert "// warpsmith-unit: 1" in texts["unit0.cpp"]
    assert texts["ending"] == "softmax: win: 1.25x"


def test_tensorboards_writer_needs_no_torch() -> None:
    pytest.importorskip("tensorboard")
    code = "import sys, warpsmith.tracking.tensorboard_tracker; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_tensorboard_without_a_folder_is_refused() -> None:
    pytest.importorskip("tensorboard")
    from warpsmith.tracking.tensorboard_tracker import TensorBoardTracker

    with pytest.raises(UsageError, match="tensorboard:FOLDER"):
        TensorBoardTracker("")


# ---------------------------------------------------------------- MLflow


def test_mlflow_keeps_a_run_and_goes_on_with_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("mlflow", reason="the extra mlflow")
    pytest.importorskip("alembic", reason="mlflow's own databases")
    from mlflow.tracking import MlflowClient

    from warpsmith.tracking.mlflow_tracker import MlflowTracker

    uri = f"sqlite:///{tmp_path / 'ml.db'}"
    client = MlflowClient(tracking_uri=uri)
    client.create_experiment("kernels", artifact_location=(tmp_path / "artifacts").as_uri())
    for status in ("interrupted", "win"):
        play(MlflowTracker(f"{uri}#kernels"), tmp_path / "files", status)
    experiment = client.get_experiment_by_name("kernels")
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id])
    assert (run.info.run_name, run.info.status) == ("softmax", "FINISHED")
    assert run.data.params == RUN.settings
    assert run.data.tags["warpsmith.status"] == "win"
    assert run.data.metrics["final/low"] == 1.25
    history = client.get_metric_history(run.info.run_id, "best/low")
    assert {(m.step, m.value) for m in history} == {(1, 1.0), (2, 1.25)}
    assert {a.path for a in client.list_artifacts(run.info.run_id)} == {"report.md", "unit0.cpp"}
    assert capfd.readouterr().out == ""  # outcomes stand there


# ---------------------------------------------------------------- Weights & Biases


def test_wandb_keeps_a_run_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("wandb", reason="the extra wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    from warpsmith.tracking.wandb_tracker import WandbTracker

    play(WandbTracker("team/kernels"), tmp_path / "files")
    (record,) = (tmp_path / "wandb").glob("offline-run-*-run-1/run-run-1.wandb")
    content = record.read_bytes()
    for text in (b"best/low", b"final/low", b"unit0.cpp", b"kernels", b"suite-1"):
        assert text in content
    assert capfd.readouterr().out == ""


def test_wandb_without_a_key_says_so_at_the_start(tmp_path: Path) -> None:
    """In a process of its own: the library keeps what it read of the environment."""
    pytest.importorskip("wandb", reason="the extra wandb")
    code = "from warpsmith.tracking import check_trackers; check_trackers(['wandb:p'])"
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)}
    process = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert "the tracker wandb has no key: run wandb login, or set WANDB_MODE=offline" in process.stderr

"""MLflow: a run in an experiment of a tracking server, a database or a folder. It uses a client of its own, so a program's active run stays."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from importlib import import_module

from .tracker import Ending, TrackedRun

EXPERIMENT = "warpsmith"
RUN_TAG = "warpsmith.run_id"
MAX_VALUE = 500  # characters of a parameter that every store takes
STATUS = {"failed": "FAILED", "interrupted": "KILLED"}


class MlflowTracker:
    """`mlflow:URI`, `mlflow:URI#EXPERIMENT`; without a URI the one of MLFLOW_TRACKING_URI."""

    def __init__(self, place: str) -> None:
        self._mlflow = import_module("mlflow")
        os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")  # outcomes stand there
        self._uri, _, experiment = place.partition("#")
        self._experiment, self._step = experiment or EXPERIMENT, 0

    def begin(self, run: TrackedRun) -> None:
        self._client = self._mlflow.MlflowClient(tracking_uri=self._uri or None)
        experiment = self._find_experiment()
        query = f"tags.`{RUN_TAG}` = '{run.run_id}'"
        earlier = self._client.search_runs([experiment], query, max_results=1)
        if earlier:
            self._run = earlier[0].info.run_id
            self._client.update_run(self._run, status="RUNNING")
            return
        tags = {RUN_TAG: run.run_id, "warpsmith.target": run.target, "warpsmith.suite": run.suite}
        begun = self._client.create_run(
            experiment, run_name=run.task, tags={name: value for name, value in tags.items() if value}
        )
        self._run = begun.info.run_id
        params = [
            self._mlflow.entities.Param(name, value[:MAX_VALUE]) for name, value in run.settings.items()
        ]
        self._client.log_batch(self._run, params=params)

    def log(self, values: Mapping[str, float], step: int) -> None:
        self._step, now_ms = step, int(time.time() * 1000)
        self._client.log_batch(
            self._run,
            [self._mlflow.entities.Metric(name, value, now_ms, step) for name, value in values.items()],
        )

    def finish(self, ending: Ending) -> None:
        self.log(ending.values, self._step)
        self._client.set_tag(self._run, "warpsmith.status", ending.status)
        self._client.set_tag(self._run, "mlflow.note.content", ending.line)
        try:
            for file in ending.files:
                self._client.log_artifact(self._run, str(file))
        finally:
            self._client.set_terminated(self._run, STATUS.get(ending.status, "FINISHED"))

    def _find_experiment(self) -> str:
        experiment = self._client.get_experiment_by_name(self._experiment)
        if experiment is not None:
            return str(experiment.experiment_id)
        try:
            return str(self._client.create_experiment(self._experiment))
        except self._mlflow.exceptions.MlflowException:  # another run was quicker
            experiment = self._client.get_experiment_by_name(self._experiment)
            if experiment is None:
                raise
            return str(experiment.experiment_id)

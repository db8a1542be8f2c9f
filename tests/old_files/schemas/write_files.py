"""Writes `schema_N.db.gz` and `schema_N.jsonl.gz` of the version that runs this: before a schema is changed, once.

In: a folder. `PYTHONPATH=src:tests/archive python tests/old_files/schemas/write_files.py FOLDER` in a checkout of that version.
"""

from __future__ import annotations

import gzip
import sys
import tempfile
from pathlib import Path

from conftest import Maker

from warpsmith.archive import Archive, export_jsonl
from warpsmith.archive.migrations import STEPS
from warpsmith.records import RunSummary


def write(folder: Path) -> None:
    """One run of two candidates, the first of them confirmed."""
    make, name = Maker(), f"schema_{len(STEPS)}"
    archive = Archive(folder / f"{name}.db")
    first, second = make.candidate(1), make.candidate(2, parents=(make.candidate(1).id,))
    archive.begin_run("run-old", make.task, "cpu", 7, {"budget": 3}, make.environment)
    archive.add_result("run-old", first, make.ok(first))
    archive.add_result("run-old", second, make.failed(second))
    archive.add_confirmation("run-old", first, make.ok(first, confirmed=True, seed=1))
    summary = {"run_id": "run-old", "task": "relu", "target": "cpu", "status": "win", "evaluations": 2}
    archive.finish_run(RunSummary.model_validate({**summary, "seconds": 3.0, "hardware": "Test CPU"}))
    archive.close()
    export_jsonl(Archive(folder / f"{name}.db"), folder / f"{name}.jsonl")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        for path in (*Path(folder).glob("*.db"), *Path(folder).glob("*.jsonl")):
            with gzip.open(Path(sys.argv[1]) / f"{path.name}.gz", "wb") as file:
                file.write(path.read_bytes())


if __name__ == "__main__":
    main()

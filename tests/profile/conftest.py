"""One-region tasks without torch: a unit's text, raw inputs and the real compiler."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from made import HEAD, SIGNATURE, FakeEvidence, Made, Make

from warpsmith.processes.buffers import Scratch
from warpsmith.records import Candidate, Region, Task, TaskSource, Unit, Variant
from warpsmith.targets.cpu import CpuTarget
from warpsmith.testing import chain_graph


@pytest.fixture(scope="session")
def target(tmp_path_factory: pytest.TempPathFactory) -> CpuTarget:
    """One for the session: the harness and equal units are built once."""
    return CpuTarget(tmp_path_factory.mktemp("builds"), threads=2)


@pytest.fixture
def scratch() -> Iterator[Scratch]:
    with Scratch() as scratch:
        yield scratch


@pytest.fixture(scope="session")
def make() -> Make:
    """make(body, head, shapes) → a task of one op at these shapes and a candidate whose unit has that body."""

    def make(
        body: str,
        head: str = "",
        shapes: Sequence[tuple[int, ...]] = ((16, 96), (3, 37)),
        language: str = "c++",
    ) -> Made:
        names = ("main", "ragged", "small")
        graphs = [chain_graph(("aten.exp.default",), shape) for shape in shapes]
        variants = tuple(Variant(name=n, overrides={}, graph=g) for n, g in zip(names, graphs, strict=False))
        task = Task(name="chain", source=TaskSource(kind="memory", path="chain"), variants=variants)
        region = Region(nodes=("n0",), inputs=("x",), outputs=("n0",), signature="exp")
        source = head + HEAD + SIGNATURE.format(body=body)
        unit = Unit(region=region, language=language, source=source, technique="test")  # type: ignore[arg-type]
        candidate = Candidate(task_id=task.id, target="cpu", units=(unit,))
        return Made(task, candidate, FakeEvidence(task))

    return make


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str, int], Path]:
    """tool(name, output, code): a program of that name first on PATH that prints the text."""

    def install(name: str, output: str, code: int = 0) -> Path:
        folder = tmp_path / "tools"
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.txt").write_text(output)
        program = folder / name
        program.write_text(f"#!/bin/sh\ncat {folder}/{name}.txt\nexit {code}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
        return program

    return install

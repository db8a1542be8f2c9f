"""Hand-made records for the archive's tests: a small task, its environment, candidates and results."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for helpers that are no tests

from postgres_server import Server, why_not

from warpsmith.archive import Archive
from warpsmith.records import (
    Candidate,
    Check,
    Environment,
    Graph,
    GraphInput,
    GraphOutput,
    Lineage,
    Node,
    Ratio,
    Region,
    Result,
    Task,
    TaskSource,
    TensorSpec,
    Timing,
    Tunable,
    Unit,
    Value,
    Variant,
    Verdict,
)


class Maker:
    """Builds records that fit together; `n` tells candidates apart."""

    def __init__(self) -> None:
        spec = TensorSpec(shape=(8, 16), dtype="float32", stride=(16, 1))
        relu = Value(name="relu", spec=spec)
        node = Node(name="relu", op="aten.relu.default", args=({"v": "x"},), kwargs={}, outputs=(relu,))
        graph = Graph(
            inputs=(GraphInput(name="x", spec=spec, role="input", target="x"),),
            nodes=(node,),
            outputs=(GraphOutput(value="relu"),),
            tree="0",
        )
        source = TaskSource(kind="kernelbench", path="relu.py", text="class Model: ...\n")
        variant = Variant(name="main", overrides={}, graph=graph)
        self.task = Task(name="relu", source=source, variants=(variant,))
        self.environment = Environment(
            cpu="Test CPU", cores=2, threads=2, memory_gb=8.0, simd="avx2", os="Linux", python="3.11",
            torch="2.13.0",
            compiler="g++ 13",
        )  # fmt: skip

    def candidate(
        self, n: int = 0, parents: tuple[str, ...] = (), signature: str = "relu|f32|r2", noise: str = ""
    ) -> Candidate:
        """`noise`: text of the source that does not compress."""
        region = Region(nodes=("relu",), inputs=("x",), outputs=("relu",), signature=signature)
        unit = Unit(
            region=region,
            language="c++",
            source=f"// version {n}\nstatic void unit() {{}}\n{noise}",
            tunables=(Tunable(name="UNROLL", domain=(1, 2, 4), value=2),),
            family="elementwise",
            technique=f"v{n}",
        )
        lineage = Lineage(parents=parents, reason=f"try {n}")
        return Candidate(task_id=self.task.id, target="cpu", units=(unit,), lineage=lineage)

    def ok(
        self, candidate: Candidate, speedup: float = 1.5, confirmed: bool = False, seed: int = 0
    ) -> Result:
        ratio = Ratio(baseline="eager", median=speedup, low=speedup * 0.97, high=speedup * 1.03)
        timing = Timing(
            median_us=100 / speedup, low_us=90 / speedup, high_us=110 / speedup, cache="cold", samples=30,
            ratios=(ratio,), limit_share=0.5, confirmed=confirmed,
        )  # fmt: skip
        checks = (Check(variant="main", family="task", where="whole", ok=True),)
        return Result(
            candidate_id=candidate.id, content_key=candidate.content_key, task_id=candidate.task_id,
            target=candidate.target, status="ok", verdict=Verdict(correct=True, checks=checks), timing=timing,
            environment=self.environment.id, seed=seed,
        )  # fmt: skip

    def screened(self, candidate: Candidate, estimate: float = 1.5) -> Result:
        timing = self.ok(candidate, estimate).timing
        assert timing is not None
        return Result(
            candidate_id=candidate.id, content_key=candidate.content_key, task_id=candidate.task_id,
            target=candidate.target, status="screened", reason="screened only", environment=self.environment.id,
            timing=timing.model_copy(update={"ratios": (), "estimate": timing.ratios[0]}),
        )  # fmt: skip

    def failed(self, candidate: Candidate, status: str = "incorrect") -> Result:
        return Result(
            candidate_id=candidate.id, content_key=candidate.content_key, task_id=candidate.task_id,
            target=candidate.target, status=status, reason="budget exceeded at [0, 3]",
            environment=self.environment.id,
        )  # fmt: skip


@pytest.fixture
def make() -> Maker:
    return Maker()


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A PostgreSQL server of this session's own. Tests that need one are skipped where there can be none."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    running = Server()
    yield running
    running.close()


DATABASES = count(1)


@pytest.fixture
def postgres_url(server: Server) -> str:
    """Of a new, empty database."""
    return server.make_database(f"archive{next(DATABASES)}")


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """A place for an archive, on each database."""
    return tmp_path / "a.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")


@pytest.fixture
def archive(where: Path | str) -> Iterator[Archive]:
    """An empty archive, on each database."""
    opened = Archive(where)
    yield opened
    opened.close()


@pytest.fixture
def sql(archive: Archive) -> Callable[[str], list[tuple[object, ...]]]:
    """Ask or change the archive's database behind its back."""

    def execute(statement: str) -> list[tuple[object, ...]]:
        engine = archive.database.engine
        with engine.connect().execution_options(write=True) as connection, connection.begin():
            done = connection.exec_driver_sql(statement)
            return [tuple(row) for row in done] if done.returns_rows else []

    return execute


@pytest.fixture
def begun(archive: Archive, make: Maker) -> Callable[[str], Archive]:
    """Begin a run of the test task in the archive, and return the archive."""

    def begin(run_id: str = "run-1") -> Archive:
        archive.begin_run(run_id, make.task, "cpu", 7, {"budget": 60}, make.environment)
        return archive

    return begin

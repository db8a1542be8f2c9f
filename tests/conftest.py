"""For all tests."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import hypothesis
import psutil
import pytest

from warpsmith import machine
from warpsmith.cli.main import main
from warpsmith.errors import ToolchainError
from warpsmith.executors.local import LocalExecutor
from warpsmith.judge import judge
from warpsmith.judge.device import eviction
from warpsmith.judge.device.memory import CHECKS
from warpsmith.judge.roofline.peaks import Peaks, measure_peaks
from warpsmith.records import Candidate, Result
from warpsmith.solutions import judge as solution_judge
from warpsmith.targets import cuda_toolkit

# An example that takes long on a busy machine is no failure.
hypothesis.settings.register_profile("shared machine", deadline=None)
hypothesis.settings.load_profile("shared machine")

# Of all processors; a test that measures time waits so long for less.
BUSY_PERCENT, SAMPLE_S, QUIET_WAIT_S = 25.0, 0.1, 60.0

# Read between two cold calls where nothing is asserted of measured time: as on a machine whose last cache has 16 MB. A virtual machine
# may state 480 MB, and each timed call then reads, and each process holds, half a gigabyte.
UNTIMED_EVICTION_BYTES = 64 << 20

# Files with tests of half a minute and more, the longest first.
LONG = (
    "test_zoo.py",
    "test_model_zoo.py",
    "test_bad_input.py",
    "test_transports.py",
    "test_kernelbench_cpu.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long begins first, so that at the end no process is alone with it."""
    rank = {name: number for number, name in enumerate(LONG)}
    items.sort(key=lambda item: rank.get(item.path.name, len(LONG)))


def pytest_collection_finish() -> None:
    """What is imported by now stays; the garbage collector need not go through it again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def _evict_little(request: pytest.FixtureRequest) -> Iterator[None]:
    """Evict less, unless any test of the session measures time; tests of the eviction itself are told nothing of it."""
    with pytest.MonkeyPatch.context() as patch:
        if not any(item.get_closest_marker("alone") for item in request.session.items):
            patch.setattr(eviction, "FLUSH_MOST", UNTIMED_EVICTION_BYTES)
        yield


@pytest.fixture(autouse=True, scope="session")
def _interrupts_arrive() -> None:
    """Whoever runs the tests in the background of a shell ignores SIGINT, and what they start would, too."""
    ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    if ignored and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _quiet_machine(request: pytest.FixtureRequest) -> None:
    """A test that measures time begins when the machine is quiet, or after a minute: what ran before may still be ending."""
    if request.node.get_closest_marker("alone") is not None:
        deadline = time.monotonic() + QUIET_WAIT_S
        while psutil.cpu_percent(interval=SAMPLE_S) > BUSY_PERCENT and time.monotonic() < deadline:
            pass


@pytest.fixture(scope="session")
def with_peaks(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """with_peaks(cache, threads) → the same folder, where a judge finds what this machine can do; that is measured once a session."""
    own = tmp_path_factory.getbasetemp()
    shared = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "peaks"

    def put(cache: Path, threads: int | None = None) -> Path:
        measure_peaks(shared, threads or machine.threads())
        cache.mkdir(parents=True, exist_ok=True)
        for file in shared.glob("peaks-*.json"):
            peaks = Peaks.model_validate_json(file.read_text())
            quiet = peaks.model_copy(update={"quiet": tuple(peaks.rates)})  # or each judge measures again
            (cache / file.name).write_text(quiet.model_dump_json())
        return cache

    return put


@pytest.fixture(scope="session")
def few_rounds() -> Callable[[], AbstractContextManager[None]]:
    """Within it, a confirmation has a third of its rounds, one for each call that is checked: for tests in which it does not
    matter how narrow the interval of a ratio is.
    """

    @contextmanager
    def within() -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            for user in (judge, solution_judge):
                patch.setattr(user, "CONFIRM_ROUNDS", CHECKS)
            yield

    return within


@pytest.fixture(scope="session")
def right_counts_as_faster() -> Callable[[], AbstractContextManager[None]]:
    """Within it, what is right in a search counts as confirmed and as twice as fast, without being judged again and however
    busy the machine was: for tests in which clocks do not matter.
    """
    run = LocalExecutor.run

    @contextmanager
    def within() -> Iterator[None]:
        results: dict[str, Result] = {}

        def remember(executor: LocalExecutor, candidates: Sequence[Candidate]) -> Iterator[Result]:
            for result in run(executor, candidates):
                results[result.candidate_id] = result
                yield result

        def confirm(executor: LocalExecutor, candidate: Candidate) -> Result:
            result = results[candidate.id]
            assert result.timing is not None, result.reason
            twice = {"median": 2.0, "low": 1.9, "high": 2.1}
            ratios = tuple(ratio.model_copy(update=twice) for ratio in result.timing.ratios)
            timing = result.timing.model_copy(update={"ratios": ratios, "confirmed": True, "busy": ""})
            return result.model_copy(update={"timing": timing})

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(LocalExecutor, "run", remember)
            patch.setattr(LocalExecutor, "confirm", confirm)
            yield

    return within


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs `warpsmith ARGUMENTS` in this process, in an empty folder with an archive and a cache of its own: exit code,
    standard output, standard error.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WARPSMITH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("WARPSMITH_ARCHIVE", str(tmp_path / "archive.db"))

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["warpsmith", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return call


@pytest.fixture
def toolkit() -> None:
    """What builds CUDA, or the test is skipped."""
    try:
        cuda_toolkit.toolkit()
    except ToolchainError as missing:
        pytest.skip(str(missing))

"""The benches on landscapes, tiny: on one by formula and on one of those that were recorded."""

import functools
import json
import math
import sys
from pathlib import Path

import pytest
from landscape_sample import sample_landscape

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import ablation  # noqa: E402
import tuners  # noqa: E402
from landscape_flat import FLAT, Flat  # noqa: E402
from landscape_search import LandscapeBrain, Trace, flat_search, package_search, settings  # noqa: E402
from landscape_stats import ratio, summary  # noqa: E402

from warpsmith.agents.base import Attempt  # noqa: E402
from warpsmith.executors.landscape_file import line, read  # noqa: E402

RECORDED = sorted((ROOT / "results" / "landscapes" / "cpu").glob("*.jsonl.gz"))
BUDGET, MOST_BYTES = 24, 2_000_000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    land, path = sample_landscape(), tmp_path / "chain.jsonl"
    records = [land.header, *land.sites, *land.sources, *land.points, *land.wholes]
    path.write_text("\n".join(map(line, records)))
    return path


def bench(monkeypatch: pytest.MonkeyPatch, module: object, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["bench", *arguments])
    assert module.main() == 0  # type: ignore[attr-defined]


def test_the_ablation_writes_a_row_for_each_way(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ways = [ablation.FULL, "no tune", ablation.TRANSFER, "random", "hill climbing"]
    out = tmp_path / "out"
    bench(
        monkeypatch,
        ablation,
        str(file),
        "--seeds",
        "2",
        "--budget",
        str(BUDGET),
        "--out",
        str(out),
        "--ways",
        *ways,
    )
    data = json.loads(out.with_suffix(".json").read_text())
    assert list(data["ways"]) == ways
    assert all(r["missing"] == 0.0 and r["mean"] <= BUDGET for r in data["ways"].values())
    assert all(f"| {way} |" in out.with_suffix(".md").read_text() for way in ways)
    bench(
        monkeypatch, ablation, str(file), "--seeds", "2", "--budget", str(BUDGET), "--ways", "no edit",
        "--add", str(out.with_suffix(".json")), "--out", str(out),
    )  # fmt: skip
    assert [*ways, "no edit"] == list(json.loads(out.with_suffix(".json").read_text())["ways"])


def test_the_tuners_are_compared_on_sources(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["climb", "random", "effects", "race"]
    bench(
        monkeypatch, tuners, str(file), "--seeds", "3", "--tuners", *names, "--out", str(tmp_path / "tuners")
    )
    found = json.loads((tmp_path / "tuners.json").read_text())["tuners"]
    assert list(found) == names
    assert all(f["seconds with cut"]["mean"] <= f["seconds"]["mean"] for f in found.values())
    assert found["effects"]["evaluations"]["mean"] < found["random"]["evaluations"]["mean"]


def test_a_search_on_a_landscape_asks_only_for_what_it_holds() -> None:
    land = sample_landscape()
    trace = package_search(land, LandscapeBrain(land), settings(), seed=1, budget=BUDGET)
    assert len(trace.us) == BUDGET
    assert trace.missing == 0
    assert min(trace.us) < trace.us[0]


def test_a_search_is_told_the_times_of_units_as_measured_not_as_they_are() -> None:
    land = sample_landscape()
    attempts: list[Attempt] = []
    package_search(land, LandscapeBrain(land), settings(), seed=1, budget=4, record=attempts.append)
    for attempt in attempts:
        assert attempt.result.profile is not None
        assert attempt.result.timing is not None
        for seen in attempt.result.profile.regions:
            assert seen.seconds * 1e6 == pytest.approx(attempt.result.timing.unit_us[seen.region])
            assert seen.seconds * 1e6 not in {p.us for p in land.points}


def test_flat_searches_ask_as_often_as_they_may() -> None:
    land = sample_landscape()
    for way in (w for w in FLAT if w != "TPE"):
        assert len(flat_search(land, Flat(land), way, 1, BUDGET).us) == BUDGET


def test_needed_counts_up_to_the_first_good_one() -> None:
    land = sample_landscape()
    assert Trace([math.inf, 2 * land.best_us, land.best_us / 0.951]).needed(land) == 3
    assert Trace([land.best_us / 0.949]).needed(land) is None


def test_means_are_geometric_and_failures_count_with_the_budget() -> None:
    found = summary({"a": [10, 10], "b": [40, None]}, budget=160)
    assert found.mean == pytest.approx((10 * 10 * 40 * 160) ** 0.25)
    assert found.low < found.mean < found.high
    assert found.failed == 0.25
    assert ratio({"a": [20], "b": [80]}, {"a": [10], "b": [40]}, 100)[0] == pytest.approx(2.0)


@pytest.mark.skipif(not RECORDED, reason="no landscapes are recorded here")
def test_recorded_landscapes_are_whole_and_small() -> None:
    assert sum(f.stat().st_size for f in RECORDED) < MOST_BYTES
    for path in RECORDED:
        land = read(path)
        assert land.points, path.name
        assert 0 < land.best_us < math.inf, path.name
        assert all(0 <= i < len(land.points) for w in land.wholes for i in w.points), path.name


# A landscape holds all that the expert can write, and the other operators try each of its cuts before a run is stalled: restarts
# find nothing new there. What is predicted is not steered, and the goal is reached before steering changes any of the rest.
# tests/search shows what both change.
IDLE = ("no restart", "no steering")


@functools.cache
def asked(path: Path, way: str) -> list[list[float]]:
    """The times of what one search asked for, in order. The whole search, which all others are compared to, is played once."""
    return [trace.us for trace in ablation.played(path, way, seeds=1, budget=60)]


@pytest.mark.skipif(not RECORDED, reason="no landscapes are recorded here")
@pytest.mark.parametrize("way", [w for w in ablation.WITHOUT if w not in (ablation.FULL, *IDLE)])
def test_switching_a_part_off_changes_what_is_asked(way: str) -> None:
    """On one recorded landscape or another; the one whose search goes on for longest, which decides for most, comes first."""
    longest_first = sorted(RECORDED, key=lambda path: path.name != "linear_summed_scores.jsonl.gz")
    assert any(asked(path, ablation.FULL) != asked(path, way) for path in longest_first)

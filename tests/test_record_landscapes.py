"""What a recording measures, and in which order; nothing is built here."""

import argparse
import gzip
import math
import random
import sys
from math import prod
from pathlib import Path

import pytest
from landscape_sample import FACTS, sample_landscape, sample_task

from warpsmith.agents.expert.ideas import Known, ideas
from warpsmith.agents.expert.planner import plans
from warpsmith.executors.landscape_data import Landscape, Point
from warpsmith.executors.landscape_file import line
from warpsmith.records import Unit

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import record_landscapes
from landscape_judge import Recorder
from landscape_recorder import AGAIN, Recording
from landscape_space import Space


def space(most: int) -> Space:
    graph = sample_task().graph
    idea = ideas(graph, FACTS, Known(), plans(graph, FACTS))[0]
    found = Space(0, 0, idea.family.write(graph, idea.region, idea.technique))
    found.thin(most, random.Random(0))
    return found


@pytest.mark.parametrize("most", [1, 8, 40, 10_000])
def test_a_thinned_lattice_holds_the_units_own_values(most: int) -> None:
    found = space(most)
    assert prod(map(len, found.domains.values())) <= most
    assert all(found.unit.values[name] in domain for name, domain in found.domains.items())
    full = {t.name: t.domain for t in found.unit.tunables}
    assert all(set(domain) <= set(full[name]) for name, domain in found.domains.items())
    assert most < 10_000 or all(len(d) == len(full[n]) for n, d in found.domains.items())


def test_all_settings_are_measured_once_the_units_own_first() -> None:
    found = space(40)
    settings = [tuple(u.values.items()) for u in found.settings(random.Random(1))]
    assert settings[0] == tuple(found.unit.values.items())
    assert len(set(settings)) == len(settings) == prod(map(len, found.domains.values()))


def test_what_is_left_of_an_early_end_is_mostly_a_lattice() -> None:
    """Three quarters of the settings: the complete part is at least half of them."""
    found = space(40)
    settings = found.settings(random.Random(1))
    done = settings[: 3 * len(settings) // 4]
    sample = sample_landscape()
    source = found.record()
    points = tuple(found.place(u).model_copy(update={"us": 1.0, "low": 1.0, "high": 1.0}) for u in done)
    cut = Landscape(
        header=sample.header, sites=sample.sites, sources=(source,), points=points
    ).drop_incomplete()
    assert 2 * len(cut.points) >= len(done)


class SlowMinutes(Recorder):
    """Every measurement of a unit takes as long as it did, times how often it was asked."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def again(self, unit: Unit, point: Point) -> Point:
        self.asked.append(point.calls)
        return point.model_copy(update={"us": point.us * (1 + self.asked.count(point.calls))})


def test_what_may_be_the_best_is_measured_again_in_turns(tmp_path: Path) -> None:
    found, judge, file = space(8), SlowMinutes(), tmp_path / "a.jsonl"
    units = found.settings(random.Random(1))[:4]
    times = {0: (10.0, "a"), 1: (11.0, "b"), 2: (10.5, "a"), 3: (20.0, "c")}
    points = [
        found.place(u).model_copy(update={"us": us, "low": us, "high": us, "calls": i, "code": code})
        for (i, (us, code)), u in zip(times.items(), units, strict=True)
    ]
    file.write_text("\n".join(map(line, points)) + "\n")
    recording = Recording(file, judge, 0.0, math.inf, 8, 0)
    recording._measure_again([found], math.inf)
    recording.lines.close()
    assert sorted(judge.asked) == sorted([0, 1] * AGAIN)  # one of each machine code near the best
    assert all(set(judge.asked[i : i + 2]) == {0, 1} for i in range(0, 2 * AGAIN, 2))
    resumed = Recording(file, judge, 0.0, math.inf, 8, 0)
    resumed._measure_again([found], math.inf)
    resumed.lines.close()
    assert len(judge.asked) == 2 * AGAIN


def test_cuda_units_are_not_tried_with_flags_of_a_cpp_compiler(tmp_path: Path) -> None:
    found = space(8)
    place = found.place(found.unit).model_copy(update={"us": 1.0, "low": 1.0, "high": 1.0})
    file = tmp_path / "a.jsonl"
    file.write_text(line(place) + "\n")
    recording = Recording(file, SlowMinutes(), 0.0, math.inf, 8, 0)
    assert list(recording._flagged(found))
    found.unit = found.unit.model_copy(update={"language": "cuda"})
    assert list(recording._flagged(found)) == []
    recording.lines.close()


def test_the_target_reaches_the_process_that_records(monkeypatch: pytest.MonkeyPatch) -> None:
    for given, target in (([], "cpu"), (["--target", "cuda"], "cuda")):
        monkeypatch.setattr(sys, "argv", ["record_landscapes.py", *given])
        made = record_landscapes.command(Path("t.py"), Path("t.jsonl"), 1.0, record_landscapes.arguments())
        assert f"--target={target}" in made


def test_rows_are_packed_the_same_way_each_time(tmp_path: Path) -> None:
    rows = "\n".join(line(p) for p in sample_landscape().points)
    file = tmp_path / "a.jsonl"
    file.write_text(rows)
    record_landscapes.pack(file)
    first = (tmp_path / "a.jsonl.gz").read_bytes()
    record_landscapes.pack(file)
    assert (tmp_path / "a.jsonl.gz").read_bytes() == first
    assert gzip.decompress(first).decode() == rows
    file.unlink()
    record_landscapes.unpack(file)
    assert file.read_text() == rows


def test_lanes_have_processors_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    lanes = record_landscapes.processors(argparse.Namespace(jobs=10_000, cores=1))
    assert lanes
    assert sum(map(len, lanes)) == len(set().union(*lanes))
    assert "hyperthreads" in capsys.readouterr().out


def test_the_tasks_are_of_the_suite() -> None:
    from warpsmith.tasks.load import load_suite

    assert set(record_landscapes.TASKS) <= {p.stem for p in load_suite("core")}
    assert len(set(record_landscapes.TASKS)) == 28

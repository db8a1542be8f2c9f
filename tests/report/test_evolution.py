"""What the search did is told by every format: operators, islands, elites, what was not judged, what was not spent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sample import RUN, winning_run

from warpsmith.agents.base import Attempt
from warpsmith.archive import Archive
from warpsmith.records import OperatorUse
from warpsmith.report import FORMATS, build_report, render
from warpsmith.report.evolution import elites, islands, lines, operators
from warpsmith.search.population import Population

USES = (
    OperatorUse(operator="seed", bred=6, judged=4, ok=3, gain=0.0, cost=4.0, rounds=(4,)),
    OperatorUse(operator="tune", bred=9, judged=8, ok=8, gain=0.4055, cost=8.1, rounds=(0, 3, 5)),
    OperatorUse(operator="crossover", bred=1, judged=1, ok=1, gain=0.0953, cost=1.0, rounds=(0, 1)),
)
SAVED = (
    "region softmax left alone at 94% of its limit from round 3",
    "stopped: at most 1.01x left; 12 s not spent",
)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    """The sample's run, with what a search tells: its candidates on three islands, and one migration."""
    archive = winning_run(tmp_path_factory.mktemp("evolved") / "a.db")
    population = Population(islands=3, migrate_every=1)
    for entry in archive.run_entries(RUN):
        population.add(Attempt(entry.candidate, entry.result, entry.hypothesis), entry.number)
    population.migrate(0)
    summary = archive.run(RUN).summary
    assert summary is not None
    told = {
        "operators": USES, "islands": population.summary(), "rejected": {"same source": 2, "same assembly": 1},
        "saved": SAVED,
    }  # fmt: skip
    archive.finish_run(summary.model_copy(update=told))
    return archive


def test_operators_are_told_with_gain_per_cost_and_their_share_of_each_round(archive: Archive) -> None:
    rows = {row[0]: row[1:] for row in operators(build_report(archive, RUN)).rows}
    assert rows["seed"] == ("6", "4", "3", "—", "4.0", "—", "100 0 0")
    assert rows["tune"] == ("9", "8", "8", "1.50×", "8.1", "5.1%", "0 75 100")
    assert rows["crossover"][3:] == ("1.10×", "1.0", "10.0%", "0 25 0")


def test_islands_name_who_arrived(archive: Archive) -> None:
    report = build_report(archive, RUN)
    rows = islands(report).rows
    assert [row[0] for row in rows] == ["0", "1", "2"]
    best = max(report.attempts, key=lambda a: a.speedup.median if a.speedup and a.kind == "search" else 0)
    holder = next(i for i, row in enumerate(rows) if f"#{best.number} from" in row[5])
    assert f"#{best.number} from {(holder - 1) % 3} after round 0" in rows[holder][5]


def test_elites_are_one_a_behaviour_best_first(archive: Archive) -> None:
    rows = elites(build_report(archive, RUN)).rows
    behaviours = [row[:3] for row in rows]
    assert len(set(behaviours)) == len(behaviours) >= 4
    assert rows[0][1] == "softmax/two-pass, streamed"
    assert {row[2] for row in rows} == {"softmax, scale"}
    factors = [float(row[3].rstrip("×")) for row in rows]
    assert factors == sorted(factors, reverse=True)


def test_what_was_not_judged_and_not_spent_is_said(archive: Archive) -> None:
    assert lines(build_report(archive, RUN)) == [
        *SAVED, "not judged, for they were not new: 3 candidates (2 same source, 1 same assembly)"
    ]  # fmt: skip


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_tells_it(archive: Archive, format: str) -> None:
    text = render(archive, RUN, format)
    assert "left alone at 94% of its limit from round 3" in text
    if format == "json":
        told = json.loads(text)["evolution"]
        assert [u["operator"] for u in told["operators"]] == ["seed", "tune", "crossover"]
        assert told["rejected"] == {"same source": 2, "same assembly": 1}
        assert len(told["islands"]) == 3
        assert told["elites"]
    else:
        for words in (
            "Operators of the search",
            "Islands",
            "Elites: the best of each behaviour",
            "0 75 100",
            "5.1%",
        ):
            assert words in text


def test_a_run_that_kept_nothing_of_it_has_no_such_part(tmp_path: Path) -> None:
    archive = winning_run(tmp_path / "a.db")
    report = build_report(archive, RUN)
    assert report.evolution is None
    assert lines(report) == []
    for format in FORMATS:
        assert "Operators of the search" not in render(archive, RUN, format)

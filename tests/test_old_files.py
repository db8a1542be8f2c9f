"""Files that were written before techniques had the field's names: they load, show today's names, and keep their ids.

`old_files` holds them as they were written: an archive with CUDA and C++ units, a bundle with its results, a suite's result,
lines of a campaign, and landscapes.
"""

from __future__ import annotations

import gzip
import json
import sqlite3
import tarfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from warpsmith.archive import Archive, export_jsonl, import_jsonl
from warpsmith.archive.timings import list_timed_units
from warpsmith.bundles.importing import import_results
from warpsmith.cli import app
from warpsmith.executors.landscape_data import Landscape, Point, Source
from warpsmith.executors.landscape_file import read
from warpsmith.records import Candidate, Region, RunSummary, Tunable, Unit
from warpsmith.records.technique_names import current_technique
from warpsmith.report.sides import read_side

FILES = Path(__file__).parent / "old_files"
EARLIER = {"flat", "teams", "split", "stash", "stretched rows"}
PRESENT = {
    "implicit-gemm-warp-specialized", "persistent-cooperative", "split-row", "row-buffered", "separable-rows", "3-pass", "rows-float",
}  # fmt: skip


@pytest.fixture
def old_archive(tmp_path: Path) -> Path:
    path = tmp_path / "archive.db"
    path.write_bytes(gzip.decompress((FILES / "archive.db.gz").read_bytes()))
    return path


@pytest.fixture
def old_bundle(tmp_path: Path) -> Path:
    with tarfile.open(FILES / "bundle_with_results.tar.gz") as file:
        file.extractall(tmp_path, filter="data")
    return tmp_path / "level1_23"


def rows(path: Path, statement: str) -> list[tuple[str, ...]]:
    with sqlite3.connect(path) as raw:
        return raw.execute(statement).fetchall()


def candidates(archive: Archive) -> list[Candidate]:
    entries = [e for run in archive.runs() for e in archive.run_entries(run.run_id)]
    return [e.candidate for e in entries]


@pytest.mark.parametrize("table", ["units", "candidates", "hypotheses", "results", "tasks"])
def test_an_upgrade_leaves_ids_and_records_as_they_are(old_archive, table):
    before = rows(old_archive, f"SELECT * FROM {table} ORDER BY id")
    Archive(old_archive).close()
    assert rows(old_archive, f"SELECT * FROM {table} ORDER BY id") == before
    assert before


@pytest.mark.filterwarnings("error")  # a damaged row is left out with a warning
def test_old_units_show_the_names_of_today(old_archive):
    units = [u for c in candidates(Archive(old_archive)) for u in c.units]
    assert {u.language for u in units} == {"c++", "cuda"}
    assert {u.technique for u in units} == PRESENT
    flat = next(u for u in units if u.technique == "implicit-gemm-warp-specialized")
    assert "technique: flat" in flat.source
    assert "TEAMS" in flat.values  # its text's macros
    assert "CONSUMER_GROUPS" in flat.current_values


def test_old_candidates_hypotheses_and_profiles_are_dumped_as_they_were_written(old_archive):
    archive = Archive(old_archive)
    stored = dict(rows(old_archive, "SELECT id, record FROM units"))
    for candidate in candidates(archive):
        for unit in candidate.units:
            assert unit.model_dump_json() == stored[unit.id]
    for name, record in rows(old_archive, "SELECT id, record FROM hypotheses"):
        hypothesis = archive.hypothesis(name)
        assert hypothesis is not None
        assert hypothesis.technique not in EARLIER
        assert hypothesis.model_dump_json() == record
    for run in archive.runs():
        for entry in archive.run_entries(run.run_id):
            profile = entry.result.profile
            assert not profile or not {r.technique for r in profile.regions} & EARLIER
            assert not EARLIER & {
                part.rpartition("/")[2].partition("@")[0]
                for part in entry.candidate.lineage.branch.split(" + ")
            }


def test_old_units_are_found_by_todays_words_and_by_their_own(old_archive):
    archive = Archive(old_archive)
    for text in ("implicit-gemm-warp-specialized", "flat"):
        units = [u for e in archive.find(text) for u in e.candidate.units]
        assert "implicit-gemm-warp-specialized" in {u.technique for u in units}, text
    assert archive.find("separable rows upsample")[0].candidate.units[0].technique == "separable-rows"


def test_an_old_and_a_new_unit_are_one_setting_for_statistics(old_archive):
    archive = Archive(old_archive)
    timed = [u for target in ("cpu", "cuda") for u in list_timed_units(archive, target)]
    assert {u.technique for u in timed} == {n for n in PRESENT if n in {u.technique for u in timed}}
    assert not {name for u in timed for name, _ in u.values} & {"TEAMS", "AHEAD", "TALL"}


def test_an_old_archive_goes_through_an_export_unchanged(old_archive, tmp_path):
    old, path = Archive(old_archive), tmp_path / "export.jsonl"
    export_jsonl(old, path)
    new = Archive(tmp_path / "new.db")
    import_jsonl(new, path)
    assert sorted(c.id for c in candidates(new)) == sorted(c.id for c in candidates(old))
    statement = "SELECT id, record FROM units ORDER BY id"
    assert rows(tmp_path / "new.db", statement) == rows(old_archive, statement)


@pytest.mark.parametrize("command", [["list"], ["find", "softmax"], ["show"], ["list", "--kind", "stones"]])
def test_commands_read_an_old_archive(old_archive, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    found = CliRunner().invoke(app, ["archive", *command, "--archive", str(old_archive)])
    assert found.exit_code == 0, found.output
    assert not EARLIER & set(found.output.split())


def test_an_old_run_is_reported_by_todays_names(old_archive):
    (run,) = [r for r in Archive(old_archive).runs() if r.task_name == "23_Softmax"]
    arguments = ["report", run.run_id, "--archive", str(old_archive), "--format", "markdown"]
    found = CliRunner().invoke(app, arguments)
    assert found.exit_code == 0, found.output
    assert "persistent-cooperative" in found.output


def test_an_old_bundle_is_read_and_its_results_are_imported(old_bundle, tmp_path):
    archive = Archive(tmp_path / "a.db")
    imported = import_results(archive, old_bundle)
    assert imported.new_results == 3
    names = {p.stem for p in (old_bundle / "bundle" / "candidates").iterdir()}
    read_again = candidates(archive)
    assert {c.id for c in read_again} == names
    assert {u.technique for c in read_again for u in c.units} == {"persistent-cooperative"}
    (run,) = imported.runs.values()
    assert run.summary is not None
    assert run.summary.best is not None
    assert run.summary.best.label == "persistent-cooperative"


def test_an_old_suite_result_and_old_lines_of_a_campaign_are_read():
    side = read_side(str(FILES / "suite_result.json"), lambda: pytest.fail("no archive is needed"))
    lines = (FILES / "campaign_lines.jsonl").read_text().splitlines()
    summaries = [*side.summaries, *(RunSummary.model_validate(json.loads(line)["summary"]) for line in lines)]
    labels = [s.best.label for s in side.summaries if s.best is not None]
    assert [label.partition("@")[0] for label in labels] == [
        "softmax/row-buffered",
        "upsample/separable-rows",
    ]
    elites = {e.technique for s in summaries for island in s.islands for e in island.elites}
    techniques = {part for elite in elites for part in elite.split(" + ")}
    assert "softmax/row-buffered" in techniques
    assert not techniques & {f"softmax/{name}" for name in EARLIER}


@pytest.mark.parametrize(
    ("task", "earlier"), [("upsample_merge_skip", "stretched rows"), ("softmax_masked_scores", "stash")]
)
def test_an_old_landscape_knows_a_unit_by_either_name(task, earlier):
    landscape = read(FILES / f"{task}.jsonl.gz")
    assert earlier not in {s.technique for s in landscape.sources}
    points = [
        p
        for p in landscape.points
        if current_technique(landscape.sources[p.source].family, earlier)
        == landscape.sources[p.source].technique
    ]
    for point in points[:: max(1, len(points) // 20)]:
        before, after = (
            unit_at(landscape, point, earlier),
            unit_at(landscape, point, landscape.sources[point.source].technique),
        )
        assert landscape.point(before) == landscape.point(after) == point
        assert landscape.domains(before) == landscape.domains(after) is not None
    assert points


def test_a_landscape_of_earlier_tunables_gives_domains_by_the_units_own_names():
    landscape = read(FILES / "upsample_merge_skip.jsonl.gz")
    source = Source(site=0, family="convolution", technique="flat", names=("TALL",), domains=((1, 2),))
    landscape = landscape.model_copy(
        update={"sources": (source,), "points": (Point(source=0, values=(2,), us=3.0),)}
    )
    for technique, name in (("flat", "TALL"), ("implicit-gemm-warp-specialized", "MMA_TILES_M")):
        unit = unit_at(landscape, landscape.points[0], technique)
        unit = unit.model_copy(update={"tunables": (Tunable(name=name, domain=(1, 2), value=2),)})
        assert landscape.domains(unit) == {name: (1, 2)}
        assert landscape.point(unit) == landscape.points[0]


def unit_at(landscape: Landscape, point: Point, technique: str) -> Unit:
    source = landscape.sources[point.source]
    region = Region(nodes=landscape.sites[source.site].nodes, inputs=(), outputs=(), signature="")
    tunables = tuple(
        Tunable(name=n, domain=(v,), value=v) for n, v in zip(source.names, point.values, strict=True)
    )
    return Unit(
        region=region, language="c++", source="//", flags=(*source.flags, *point.flags), tunables=tunables,
        family=source.family, technique=technique,
    )  # fmt: skip


def test_a_unit_that_is_edited_is_written_by_todays_name(old_archive):
    unit = next(u for c in candidates(Archive(old_archive)) for u in c.units if u.technique == "row-buffered")
    assert unit.model_dump()["technique"] == "stash"
    assert unit.model_copy(update={"flags": ("-O1",)}).model_dump()["technique"] == "stash"
    assert unit.model_copy(update={"technique": "row-buffered"}).model_dump()["technique"] == "row-buffered"
    assert Unit.model_validate_json(unit.model_dump_json()) == unit

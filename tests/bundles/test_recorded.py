"""A folder of recorded results is sorted out by content, and what is damaged is named."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from warpsmith.archive import Archive
from warpsmith.bundles.recorded import import_recorded
from warpsmith.cli import app
from warpsmith.errors import UsageError

TESTS = Path(__file__).resolve().parents[1]


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """An export, a packed bundle with its results, claims, a campaign, and files of other kinds."""
    folder = tmp_path / "records"
    (folder / "gpu").mkdir(parents=True)
    (folder / "gpu/first.jsonl").write_bytes(
        gzip.decompress((TESTS / "site/data/small_archive.jsonl.gz").read_bytes())
    )
    (folder / "gpu/packed.tar.gz").write_bytes((TESTS / "old_files/bundle_with_results.tar.gz").read_bytes())
    claim = {"task": "1/43", "claimed": 4.2, "verdict": "incorrect", "label": "none", "reason": "budget"}
    (folder / "claims.jsonl").write_text(json.dumps(claim) + "\n")
    (folder / "campaign.jsonl").write_text(json.dumps({"task": "level1/1", "status": "win"}) + "\n")
    (folder / "other.jsonl").write_text("[1]\n")
    (folder / "page.md").write_text("# no results")
    return folder


def test_files_are_sorted_out_by_content(records: Path, tmp_path: Path) -> None:
    told: list[str] = []
    with closing(Archive(tmp_path / "a.db")) as archive:
        recorded = import_recorded(archive, [records], told.append)
        assert archive.counts()["runs"] >= 3
        tasks = {run.task_name for run in archive.runs()}
    assert (recorded.exports, recorded.bundles, recorded.problems) == (1, 1, [])
    assert set(recorded.rows) == {"claims", "campaign"}
    assert "99_Matmul_GELU_Softmax" in tasks
    assert "reading gpu/packed.tar.gz" in told


def test_what_is_damaged_is_named_and_the_rest_comes(records: Path, tmp_path: Path) -> None:
    (records / "gpu/cut.tar.gz").write_bytes((records / "gpu/packed.tar.gz").read_bytes()[:2000])
    text = (records / "gpu/first.jsonl").read_text()
    (records / "gpu/torn.jsonl").write_text(text[: len(text) // 2])
    with closing(Archive(tmp_path / "a.db")) as archive:
        recorded = import_recorded(archive, [records], lambda text: None)
    assert (recorded.exports, recorded.bundles) == (1, 1)
    assert [p.split(" ")[0] for p in recorded.problems] == ["gpu/cut.tar.gz", "gpu/torn.jsonl"]


def test_a_packed_file_cannot_write_outside(records: Path, tmp_path: Path) -> None:
    with tarfile.open(records / "gpu/evil.tar.gz", "w:gz") as packed:
        member = tarfile.TarInfo("../../../escaped")
        member.size = 1
        packed.addfile(member, io.BytesIO(b"x"))
    with closing(Archive(tmp_path / "a.db")) as archive:
        recorded = import_recorded(archive, [records], lambda text: None)
    assert any(p.startswith("gpu/evil.tar.gz is left out") for p in recorded.problems)
    assert not list(tmp_path.rglob("escaped"))


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with closing(Archive(tmp_path / "a.db")) as archive, pytest.raises(UsageError, match="not there"):
        import_recorded(archive, [tmp_path / "none"], lambda text: None)


def test_the_command_builds_a_site_of_a_folder(records: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(
        app, ["site", "build", str(tmp_path / "out"), "--records", str(records), "--json", "-", "--quiet"]
    )
    assert result.exit_code == 0, result.output
    counts = json.loads(result.stdout)
    assert counts["tasks"] >= 3
    assert "1/43" in (tmp_path / "out/found.html").read_text()
    assert "level1/1" in (tmp_path / "out/suites/campaign.html").read_text()

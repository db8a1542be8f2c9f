import re
from pathlib import Path

import pytest

from warpsmith.errors import UsageError
from warpsmith.targets.front_matter import parse
from warpsmith.zoo.fixture import FOLDER, SUFFIX, load, read

ALL = load()
BY_KEY = {f.key: f for f in ALL}
DOCS = Path(__file__).resolve().parents[2] / "docs" / "zoo.md"


def test_the_zoo_is_large_enough() -> None:
    cheats = [f for f in ALL if not f.honest]
    assert len(cheats) >= 60
    assert sum(f.row == "new" for f in cheats) >= 20
    assert {f.form for f in cheats} == set(SUFFIX)


def test_every_row_of_the_table_has_a_fixture() -> None:
    assert {int(f.row) for f in ALL if f.row.isdigit()} == set(range(1, 46))


@pytest.mark.parametrize("fixture", [f for f in ALL if not f.honest], ids=lambda f: f.key)
def test_a_cheat_has_an_honest_twin_or_a_reason(fixture) -> None:
    if fixture.residual:
        return
    twin = BY_KEY[f"{fixture.form}/{fixture.twin}"]
    assert twin.honest
    assert twin.task == fixture.task
    assert fixture.statuses


@pytest.mark.parametrize("fixture", ALL, ids=lambda f: f.key)
def test_a_fixture_is_whole(fixture) -> None:
    assert fixture.task_file.is_file()
    source = fixture.source()
    if fixture.form == "modelnew":
        assert "class ModelNew" in source
        compile(source, fixture.name, "exec")
    else:
        parse(source)
        assert "static void unit(" in source


def test_the_docs_name_every_fixture() -> None:
    text = DOCS.read_text()
    cheats = {f.name for f in ALL if not f.honest}
    assert sorted(n for n in cheats if f"`{n}`" not in text) == []
    named = set(
        re.findall(r"`([a-z][a-z0-9_]+)`", "\n".join(x for x in text.splitlines() if x.startswith("|")))
    )
    assert sorted(named - {f.name for f in ALL}) == []


@pytest.mark.parametrize(
    ("text", "lacks"),
    [
        ("// cheat: x\n// task: softmax\n", "caught by, row, twin"),
        ("// row: 1\n// honest: x\n", "task"),
        ("// row: 1\n// residual: why\n// task: softmax\n", "cheat"),
        ("int x; // row: 1\n", "caught by, cheat, row, task, twin"),
    ],
)
def test_a_header_that_lacks_a_line_is_refused(tmp_path: Path, text: str, lacks: str) -> None:
    path = tmp_path / "odd.cpp"
    path.write_text(text)
    with pytest.raises(UsageError, match=f"odd.cpp: its header lacks {lacks}"):
        read("cpp", path)


def test_a_header_ends_with_the_first_line_of_code(tmp_path: Path) -> None:
    path = tmp_path / "a.cpp"
    path.write_text(
        "// row: 1\n// honest: x\n// prose, no key: at all\n// task: softmax\n#define A\n// row: 2\n"
    )
    assert read("cpp", path).row == "1"


def test_bases_are_no_fixtures() -> None:
    assert not [f for f in ALL if f.name.startswith("_")]
    assert {p.stem for p in (FOLDER / "tasks").glob("*.py")} == {f.task for f in ALL}

"""Each row is durable, in order, of this bundle, and by whom it says; a kill loses at most the row being written."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from bundle_sample import FAST, KEY, WHOLE, opening, result, row

from warpsmith.bundles.journal import ROWS, Journal, read_rows
from warpsmith.bundles.manifest import BundleError

ROOT = "ab" * 32
WRITER = Path(__file__).parent / "journal_writer.py"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with Journal(tmp_path, ROOT, "0") as journal:
        for one in WHOLE:
            journal.append(one)
    return tmp_path


def changed(folder: Path, change: Callable[[list[str]], list[str]]) -> None:
    path = folder / ROWS
    path.write_text("".join(f"{line}\n" for line in change(path.read_text().splitlines())))


def test_rows_come_back_in_order_and_more_are_appended(folder: Path) -> None:
    assert tuple(read_rows(folder, ROOT)) == WHOLE
    more = row("canary", result(FAST, 2.0))
    with Journal(folder, ROOT, "0") as journal:
        assert tuple(journal.rows) == WHOLE
        journal.append(more)
    assert tuple(read_rows(folder, ROOT)) == (*WHOLE, more)


@pytest.mark.parametrize("cut", [1, 10, 200])
def test_a_last_line_that_was_cut_off_is_no_line(folder: Path, cut: int) -> None:
    path = folder / ROWS
    path.write_bytes(path.read_bytes()[:-cut])
    assert tuple(read_rows(folder, ROOT)) == WHOLE[:-1]
    with Journal(folder, ROOT, "0") as journal:
        journal.append(WHOLE[-1])
    assert tuple(read_rows(folder, ROOT)) == WHOLE


def faster(lines: list[str]) -> list[str]:
    return [*lines[:2], lines[2].replace('"median": 2.0', '"median": 9.0'), *lines[3:]]


def resealed(lines: list[str]) -> list[str]:
    """A row from elsewhere in the file, with the seal of the place it is put."""
    data = json.loads(lines[2]) | {"row": json.loads(lines[3])["row"]}
    return [*lines[:2], json.dumps(data), *lines[3:]]


@pytest.mark.parametrize(
    "change",
    [
        faster,
        resealed,
        lambda lines: [*lines[:2], *lines[3:]],  # dropped
        lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]],  # moved
        lambda lines: [*lines, lines[-1]],  # repeated
        lambda lines: lines[1:],  # without its beginning
        lambda lines: [*lines, "{}"],
        lambda lines: [*lines, "not json"],
        lambda lines: [*lines, '{"row": 3, "seal": "", "mac": ""}'],
    ],
)
def test_every_change_to_a_line_is_seen(folder: Path, change: Callable[[list[str]], list[str]]) -> None:
    changed(folder, change)
    with pytest.raises(BundleError) as caught:
        read_rows(folder, ROOT)
    assert "\n" not in str(caught.value)
    with pytest.raises(BundleError), Journal(folder, ROOT, "0"):
        pass


def test_rows_of_another_bundle_are_refused(folder: Path) -> None:
    with pytest.raises(BundleError, match="of another bundle"):
        read_rows(folder, "cd" * 32)
    with pytest.raises(BundleError, match="cannot be read"):
        read_rows(folder / "none", ROOT)


def test_a_key_seals_every_row(tmp_path: Path) -> None:
    with Journal(tmp_path, ROOT, "0", KEY) as journal:
        journal.append(opening())
    assert read_rows(tmp_path, ROOT, KEY) == read_rows(tmp_path, ROOT) == [opening()]
    with pytest.raises(BundleError, match="not signed with this key"):
        read_rows(tmp_path, ROOT, KEY[::-1])


@pytest.mark.parametrize(
    ("first", "then", "message"),
    [(None, KEY, "without a key"), (KEY, None, "with a key"), (KEY, KEY[::-1], "with another key")],
)
def test_a_run_goes_on_with_the_key_it_began_with(
    tmp_path: Path, first: bytes | None, then: bytes | None, message: str
) -> None:
    with Journal(tmp_path, ROOT, "0", first):
        pass
    with pytest.raises(BundleError, match=message), Journal(tmp_path, ROOT, "0", then):
        pass


def test_one_process_at_a_time_writes_and_its_kill_loses_no_row(tmp_path: Path) -> None:
    writer = subprocess.Popen(
        [sys.executable, str(WRITER), str(tmp_path), ROOT], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    told = [int(writer.stdout.readline()) for _ in range(5)]
    with pytest.raises(BundleError, match="being written by another process"), Journal(tmp_path, ROOT, "0"):
        pass
    writer.send_signal(signal.SIGKILL)
    told += [int(line) for line in writer.stdout.read().split()]
    writer.wait()
    with Journal(tmp_path, ROOT, "0") as journal:
        assert len(journal.rows) in (told[-1], told[-1] + 1)  # the last may not have been told yet

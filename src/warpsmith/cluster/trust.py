"""When a win that one worker claims counts: another worker of the same kind of hardware judges it again.

In: the result of the claim, and the rows of a bundle that another worker judged. Out: a `Word`. *confirmed*: it wins there, too. *unproved*: it does
not win, and the two measurements do not contradict each other. *refuted*: the outcome is another, or the claimed interval lies
above the other's by more than two machines of one kind differ. *none*: the other worker could not judge it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from ..archive.adopting import adopt_run
from ..archive.offers import differences
from ..archive.store import Archive
from ..bundles.bundle import Bundle, make_bundle
from ..bundles.importing import import_results
from ..bundles.journal import ROWS, ResultRow, TaskRow, read_rows
from ..bundles.manifest import BundleError
from ..bundles.running import COPY
from ..bundles.standing import Standing, check_rows, compare_results
from ..records import Candidate, Environment, Result, Task
from ..records.intervals import describe_ratio

DRIFT = 1.25  # of a speedup, between two machines of one kind; more is no noise

Verdict = Literal["confirmed", "unproved", "refuted", "none"]


@dataclass(frozen=True)
class Word:
    """What a second worker says of a claim."""

    verdict: Verdict
    reason: str
    rows: str = ""  # of its results


def make_claim_bundle(task: Task, candidate: Candidate, key: bytes | None) -> Bundle:
    return make_bundle(candidate.target, [task], [candidate], key=key)


def pack(bundle: Bundle) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bundle.tar.gz"
        bundle.write(path)
        return path.read_bytes()


def weigh(bundle: Bundle, claim: Result, rows: str, environment: Environment, key: bytes | None) -> Word:
    """Read what a worker in this environment judged of the bundle. Raises BundleError for rows that are damaged, not sealed with the
    key, or of another bundle.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write_results(bundle, rows, folder)
        judged = read_rows(folder, bundle.root, key)
        check_rows(bundle, judged, folder / ROWS)
        _check_times(judged)
    second = find_word(bundle, judged, environment)
    return compare(claim, second, rows)


def _check_times(rows: Collection[TaskRow | ResultRow]) -> None:
    """Raise BundleError where a row does not say when it was written."""
    for row in rows:
        at = row.result.judged_at if isinstance(row, ResultRow) else row.at
        try:
            datetime.fromisoformat(at)
        except ValueError as error:
            raise BundleError(f"a row of {row.kind} does not say when it was written") from error


def find_word(
    bundle: Bundle, rows: Collection[TaskRow | ResultRow], environment: Environment
) -> Result | None:
    """Find the confirmation of the bundle's candidate, else its first result, in this environment."""
    (candidate,) = bundle.candidates.values()
    standing = Standing(bundle, list(rows), environment.id, confirm=1)
    return standing.find_confirmation(candidate) or standing.find_first(candidate)


def compare(claim: Result, second: Result | None, rows: str = "") -> Word:
    """Compare a claim with what a second worker measured."""
    if second is None or second.status == "error":
        return Word("none", second.reason if second is not None else "it could not open the task")
    if second.status != "ok" or second.speedup is None or claim.speedup is None:
        return Word("refuted", compare_results(claim, second), rows)
    stated = f"{describe_ratio(claim.speedup)} claimed, {describe_ratio(second.speedup)} measured"
    if claim.speedup.low > DRIFT * second.speedup.high:
        return Word("refuted", stated, rows)
    if second.win and second.confirmed:
        return Word("confirmed", stated, rows)
    return Word("unproved", stated, rows)


def keep_word(archive: Archive, bundle: Bundle, rows: str, key: bytes | None) -> None:
    """Put the second measurement into the archive as its own: it is the later one, so it stands."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write_results(bundle, rows, folder)
        imported = import_results(archive, folder, key, confirm=1)
    for run_id in imported.runs:
        adopt_run(archive, run_id)


def is_same_kind(one: Environment, other: Environment) -> bool:
    """True where a winner of one is a winner of the other: device, driver, compiler, torch, vector width and threads agree."""
    return not differences(one, other) and one.warpsmith == other.warpsmith


def _write_results(bundle: Bundle, rows: str, folder: Path) -> None:
    bundle.write(folder / COPY)
    (folder / ROWS).write_text(rows)

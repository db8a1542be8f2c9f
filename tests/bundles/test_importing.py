"""Results in an archive: with lineage and machine, once, unverified without the key, as ours with it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from bundle_sample import (
    ENVIRONMENT,
    FAST,
    FASTER,
    IDEA,
    KEY,
    LIMIT,
    TASK,
    WHOLE,
    WRONG,
    candidate,
    opening,
    result,
    row,
)

from warpsmith.archive import Archive
from warpsmith.bundles.importing import Imported, import_results
from warpsmith.bundles.journal import ResultRow
from warpsmith.bundles.manifest import BundleError
from warpsmith.records import UsedPeaks
from warpsmith.report import render

Write = Callable[..., Path]


@pytest.fixture(name="archive")
def _archive(tmp_path: Path) -> Archive:
    return Archive(tmp_path / "a.db")


def only_run(found: Imported) -> str:
    (run_id,) = found.runs
    return run_id


def test_everything_is_in_the_archive_with_lineage_and_machine(written: Write, archive: Archive) -> None:
    found = import_results(archive, written())
    run = archive.run(only_run(found))
    entries = archive.run_entries(run.run_id)
    assert found.new_results == len(entries) == 4
    assert [e.candidate for e in entries] == [FAST, FASTER, WRONG, FASTER]
    assert [e.kind for e in entries] == ["search", "search", "search", "confirmation"]
    assert [e.elapsed for e in entries] == [1, 2, 3, 4]
    assert entries[0].hypothesis == IDEA
    assert archive.ancestors(FASTER.id) == [FAST]
    assert (run.environment, run.seed, run.origin) == (ENVIRONMENT, 5, "imported")
    assert archive.environment(ENVIRONMENT.id) == ENVIRONMENT
    assert run.summary is not None
    assert (run.summary.status, run.summary.stages) == ("win", {"ok": 2, "incorrect": 1})
    assert run.summary.best is not None
    assert (run.summary.best.candidate_id, run.summary.best.speedup.median) == (FASTER.id, 2.9)


def test_a_limit_that_changed_on_the_way_is_one_limit_here(written: Write, archive: Archive) -> None:
    """The journal is sealed as it was written; the run has the lowest limit that it knew, and all of its shares."""
    lower = LIMIT.model_copy(update={"seconds": LIMIT.seconds / 2, "peaks": UsedPeaks(key="better00")})
    rows = [r for r in WHOLE if isinstance(r, ResultRow)]
    with_limits = [
        r.model_copy(update={"result": r.result.model_copy(update={"timing": r.result.timing.restate(limit)})})
        if r.result.timing is not None else r
        for r, limit in zip(rows, (LIMIT, lower, lower, lower), strict=True)
    ]  # fmt: skip
    run = archive.run(only_run(import_results(archive, written([opening(), *with_limits]))))
    assert run.limit == lower
    assert run.summary is not None
    assert run.summary.best is not None
    assert (run.summary.limit_us, run.summary.peaks) == (lower.seconds * 1e6, lower.peaks)
    assert [b.limit_share for b in run.baselines] == [lower.share(100.0)]
    timings = [e.result.timing for e in archive.run_entries(run.run_id) if e.result.timing is not None]
    assert {t.limit for t in timings} == {lower}
    assert all(t.limit_share == lower.share(t.median_us) for t in timings)
    assert run.summary.best.limit_share == lower.share(run.summary.best.median_us)


def test_without_the_key_results_are_unverified(written: Write, archive: Archive) -> None:
    import_results(archive, written(key=KEY))
    assert archive.winners(TASK.id, "cpu", ENVIRONMENT.id) == []
    unverified = archive.winners(TASK.id, "cpu", ENVIRONMENT.id, include_imported=True)
    assert [(e.candidate, e.verified_here) for e in unverified] == [(FASTER, False)]


def test_with_the_key_winners_are_winners_of_that_machine(written: Write, archive: Archive) -> None:
    found = import_results(archive, written(key=KEY), KEY)
    assert found.trusted
    (winner,) = archive.winners(TASK.id, "cpu", ENVIRONMENT.id)
    assert (winner.candidate, winner.result.environment) == (FASTER, ENVIRONMENT.id)
    assert {e.origin for e in archive.run_entries(only_run(found))} == {"local"}
    assert archive.index_judged_results(TASK.id, "cpu", "this machine") == {}  # still to be judged here


def test_the_report_says_unverified_only_where_it_is(written: Write, archive: Archive) -> None:
    folder = written(key=KEY)
    run_id = only_run(import_results(archive, folder))
    assert "unverified until it is judged here" in render(archive, run_id, "text")
    import_results(archive, folder, KEY)
    text = render(archive, run_id, "text")
    assert "win" in text
    assert "unverified" not in text


def test_the_key_may_come_later(written: Write, archive: Archive) -> None:
    folder = written(key=KEY)
    assert import_results(archive, folder).new_results == 4
    assert import_results(archive, folder, KEY).new_results == 0
    assert len(archive.winners(TASK.id, "cpu", ENVIRONMENT.id)) == 1
    assert import_results(archive, folder).new_results == 0
    assert len(archive.winners(TASK.id, "cpu", ENVIRONMENT.id)) == 1  # what is trusted stays so


def test_importing_twice_changes_nothing(written: Write, archive: Archive) -> None:
    folder = written()
    import_results(archive, folder)
    before = archive.counts(), [e.result.id for e in archive.results(TASK.id, "cpu")]
    assert import_results(archive, folder).new_results == 0
    assert (archive.counts(), [e.result.id for e in archive.results(TASK.id, "cpu")]) == before


def test_a_part_comes_first_and_the_rest_later_in_the_same_run(written: Write, archive: Archive) -> None:
    first = import_results(archive, written(WHOLE[:3]))
    assert archive.run(only_run(first)).summary is None
    then = import_results(archive, written(WHOLE[3:]))
    assert (only_run(then), then.new_results) == (only_run(first), 2)
    run = archive.run(only_run(first))
    assert run.summary is not None
    assert run.summary.status == "win"
    assert [e.number for e in archive.run_entries(run.run_id)] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("rows", "status", "reason"),
    [
        ([opening(status="task-error", reason="too large")], "failed", "too large"),
        (
            [opening(), *(row("search", result(c, "crashed")) for c in (FAST, FASTER, WRONG))],
            "failed",
            "nothing valid was produced: crashed",
        ),
        (
            [
                *WHOLE[:4],
                row("confirmation", result(FASTER, "incorrect")),
                row("confirmation", result(FAST, "incorrect")),
            ],
            "failed",
            "no candidate passed the confirmation",
        ),
        (
            [opening(admission={"admitted": False, "mutants": {"zeros": "admitted"}}), *WHOLE[1:]],
            "no-win",
            "the task is quarantined: a wrong answer can pass on it, so no speedup counts",
        ),
    ],
)
def test_a_run_ends_as_it_would_here(
    written: Write, archive: Archive, rows: list[object], status: str, reason: str
) -> None:
    run = archive.run(only_run(import_results(archive, written(rows))))
    assert run.summary is not None
    assert (run.summary.status, run.summary.reason) == (status, reason)


def test_results_that_are_not_of_the_bundle_are_refused(written: Write, archive: Archive) -> None:
    stranger = candidate("stranger")
    cases = {
        "is not in the bundle": row("search", result(stranger, 2.0)),
        "does not match its candidate": row(
            "search", result(FAST, 2.0).model_copy(update={"content_key": WRONG.content_key})
        ),
        "no line before it says": row("search", result(FAST, 2.0).model_copy(update={"environment": "e"})),
    }
    for canaries, (message, bad) in enumerate(cases.items()):  # each in a folder of its own
        folder = written([opening(), bad], canaries=canaries)
        with pytest.raises(BundleError, match=message):
            import_results(archive, folder)
    assert archive.counts()["results"] == 0


def test_a_key_that_did_not_seal_bundle_and_results_is_refused(written: Write, archive: Archive) -> None:
    signed, unsigned = written(key=KEY), written(canaries=1)
    for folder in (signed, unsigned):
        with pytest.raises(BundleError, match="signed with"):
            import_results(archive, folder, KEY[::-1])
    shutil.copy(unsigned / "results.jsonl", signed / "results.jsonl")
    with pytest.raises(BundleError, match="of another bundle"):
        import_results(archive, signed, KEY)
    assert archive.runs() == []


def test_a_key_on_the_bundle_alone_is_not_enough(written: Write, archive: Archive) -> None:
    """Somebody without the key may run a signed bundle: what they bring is unverified."""
    from warpsmith.bundles.bundle import read_bundle
    from warpsmith.bundles.journal import Journal

    folder = written(key=KEY)
    (folder / "results.jsonl").unlink()
    with Journal(folder, read_bundle(folder / "bundle").root, "0") as journal:
        for one in WHOLE:
            journal.append(one)
    with pytest.raises(BundleError, match="not signed with this key"):
        import_results(archive, folder, KEY)
    assert import_results(archive, folder).new_results == 4
    assert archive.winners(TASK.id, "cpu", ENVIRONMENT.id) == []

"""Jobs as commands play them: submitted, followed, each row printed once it is known. An interrupt gives them up."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import get_args

from ..authoring.answers import Answer
from ..authoring.author import Author, expect_success, wait_for_end
from ..authoring.author_views import CheckView, VerdictView
from ..authoring.jobs import MAX_BATCH, Confirm, JobKind, JobRequest, JobView, Submission
from ..authoring.prose import check_lines, verdict_lines
from ..errors import UsageError
from ..progress import Observer


def make_requests(
    collected: Sequence[tuple[str, tuple[Answer, ...]]], how: JobKind, confirm: str, author: str, onto: str, note: str
) -> list[JobRequest]:  # fmt: skip
    """One job a task, more where there are many answers."""
    requests = []
    for task, group in groupby(collected, key=lambda pair: pair[0]):
        batch = [Submission(units=units, onto=onto, note=note[:400]) for _, units in group]
        requests += [
            JobRequest(
                kind=how, task=task, submissions=tuple(batch[start : start + MAX_BATCH]), author=author[:80],
                confirm=read_confirm(confirm),
            )
            for start in range(0, len(batch), MAX_BATCH)
        ]  # fmt: skip
    return requests


def make_tune_request(author: Author, candidate: str, settings: int, confirm: str) -> JobRequest:
    task = author.source(candidate).task
    return JobRequest(
        kind="tune", task=task, candidates=(candidate,), settings=settings, confirm=read_confirm(confirm)
    )


def read_confirm(text: str) -> Confirm:
    for choice in get_args(Confirm):
        if text == choice:
            chosen: Confirm = choice
            return chosen
    raise UsageError(f"--confirm {text}: give none, best or all")


def play_jobs(
    author: Author, requests: Sequence[JobRequest], observer: Observer, tell_rows: bool
) -> list[JobView]:
    """Submit all before the first is waited for. Raises the error of one that failed."""
    jobs: list[JobView] = []
    try:
        for request in requests:
            jobs.append(author.submit(request))
        for index, job in enumerate(jobs):
            jobs[index] = _follow(author, job, observer, tell_rows)
    except BaseException:
        for job in jobs:
            if not job.ended:
                author.cancel(job.job_id)
        raise
    return jobs


def rows_of(job: JobView) -> Sequence[VerdictView | CheckView]:
    return job.checks if job.kind == "check" else job.rows


def has_passed(job: JobView) -> bool:
    """True if every candidate is right as far as was asked."""
    if job.kind == "check":
        return all(check.ok for check in job.checks)
    passing = ("ok", "screened") if job.kind == "screen" else ("ok",)
    return all(row.status in passing for row in job.rows)


def describe_job(job: JobView) -> str:
    ends = f", {job.error}" if job.error else f", {job.stage}" if job.stage else ""
    best = f", best {job.best}" if job.best else ""
    return f"{job.job_id} {job.kind} of {job.name} by {job.author}: {job.state}, {len(rows_of(job))} rows{best}{ends} ({job.submitted_at})"


def describe_rows(job: JobView) -> list[str]:
    return [line for row in rows_of(job) for line in _row_lines(row)]


def _follow(author: Author, job: JobView, observer: Observer, tell_rows: bool) -> JobView:
    said: set[str] = set()

    def hear(changed: JobView) -> None:
        observer.stage(changed.stage or "waiting for the judge")
        for row in rows_of(changed) if tell_rows else ():
            if row.id not in said:
                said.add(row.id)
                print("\n".join(_row_lines(row)), flush=True)

    hear(job)
    job = expect_success(wait_for_end(author, job, progress=hear))
    for note in job.notes:
        observer.note(note)
    return job


def _row_lines(row: VerdictView | CheckView) -> list[str]:
    return check_lines(row) if isinstance(row, CheckView) else verdict_lines(row)

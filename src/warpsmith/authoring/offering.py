"""A winner before it leaves the archive: confirmed in this environment, judged again in it, or refused.

A run and its win in; the run and the confirmation that hold on this machine out.
"""

from __future__ import annotations

from collections.abc import Callable

from .. import plugins
from ..archive import Archive, Entry, RunRecord
from ..archive.offers import find_confirmation, why_not_here
from ..config import Config
from ..errors import ArchiveError, UsageError
from ..machine import describe
from ..processes.buffers import Scratch
from ..records import Environment
from ..targets.target import Target
from .author_session import AuthorSession

Offer = tuple[RunRecord, Entry]


def describe_machine_for(config: Config, target: str) -> Environment:
    """Describe this machine as it is to a winner for that target."""
    return describe(config.compiler, "cuda" if target == "cuda" else "cpu")


def find_win_here(archive: Archive, run: RunRecord, entry: Entry, config: Config) -> Offer:
    """The win as it was confirmed in this environment. Raises UsageError, one line, where it was not."""
    environment = describe_machine_for(config, run.target)
    confirmation = find_confirmation(archive, entry, environment)
    if confirmation is None:
        raise UsageError(
            f"the win of run {run.run_id} was not confirmed in this environment "
            f"({why_not_here(archive, entry, environment)}): add --confirm to judge it here, or --elsewhere to write it "
            "for where it was confirmed"
        )
    if confirmation.result.id == entry.result.id:
        return run, confirmation
    return archive.run(archive.run_of(confirmation.result.id) or run.run_id), confirmation


def judge_here(
    archive: Archive, run: RunRecord, entry: Entry, config: Config, progress: Callable[[str], None]
) -> Offer:
    """Judge the win in this environment, as a run of its own, and offer what came out. Raises UsageError when it is no win
    here, TaskError, ToolchainError, JudgeError.
    """
    task = archive.task(entry.candidate.task_id)
    if task is None:
        raise ArchiveError(f"task {entry.candidate.task_id} of this candidate is not in the archive")
    target: Target = plugins.load("targets", run.target)(config.cache, config.compiler, config.threads)
    session = AuthorSession(task, target, config, archive, Scratch(), progress)
    try:
        result = session.judge_candidate(entry.candidate)
        run_id = session.run_id
    finally:
        session.close()
    if not (result.win and session.judge.admission.admitted):
        why = result.reason or "it is not faster than the best baseline"
        raise UsageError(f"the win of run {run.run_id} is none on this machine: {why} (run {run_id})")
    confirmation = next(e for e in archive.run_entries(run_id) if e.result.id == result.id)
    return archive.run(run_id), confirmation

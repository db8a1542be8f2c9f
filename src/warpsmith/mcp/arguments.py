"""Arguments of the tools: names with their descriptions for the client's model, candidates, and how they become submissions.

In: what a client sends, validated. Out: submissions. Raises UsageError, one line.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ..authoring.answers import MAX_NOTE_CHARACTERS, MAX_SOURCE_BYTES, MAX_UNITS, Answer
from ..authoring.jobs import MAX_BATCH, Submission
from ..errors import UsageError
from ..records import Record

WAIT_SECONDS = 45.0  # that a tool waits for its job unless told otherwise: some clients give a call a minute
MAX_WAIT_SECONDS = 3600.0
TaskName = Annotated[
    str, Field(description="A task of list_tasks, a path of a task file, or package.module:Class")
]
RegionName = Annotated[
    str,
    Field(description="Number of a proposed region, node names separated by commas, or 'all'; empty: 'all'"),
]
CandidateId = Annotated[str, Field(max_length=64, description="A candidate's id")]
AuthorName = Annotated[str, Field(max_length=80, description="Your name, for the board")]
Onto = Annotated[
    str, Field(max_length=64, description="A candidate's id or 'best': keep its other units; empty: none")
]
Wait = Annotated[
    float,
    Field(
        ge=0,
        le=MAX_WAIT_SECONDS,
        description="Seconds to wait for the job to end; it goes on after that: ask for it with job",
    ),
]
Shared = Annotated[bool, Field(description="Other clients of a shared service may see it")]


class UnitText(Record):
    """One kernel source."""

    source: str = Field(
        description="The whole unit file, beginning with '// warpsmith-unit: 1'", max_length=MAX_SOURCE_BYTES
    )
    region: str = Field(
        default="",
        description="What it covers, as for header; empty: what its '// covers:' line says, else all",
    )


class CandidateText(Record):
    """One candidate."""

    units: list[UnitText] = Field(description="One unit, or several for different regions")
    onto: str = Field(
        default="", max_length=64, description="A candidate's id or 'best': keep its other units"
    )
    note: str = Field(
        default="", max_length=MAX_NOTE_CHARACTERS, description="What is different, why it should be faster"
    )


def make_submissions(candidates: list[CandidateText]) -> tuple[Submission, ...]:
    if not 1 <= len(candidates) <= MAX_BATCH:
        raise UsageError(f"a batch has 1 to {MAX_BATCH} candidates, not {len(candidates)}")
    return tuple(
        Submission(units=make_answers(c.units, f"candidate {i}, "), onto=c.onto, note=c.note)
        for i, c in enumerate(candidates, 1)
    )


def make_answers(units: list[UnitText], of: str = "") -> tuple[Answer, ...]:
    if not 1 <= len(units) <= MAX_UNITS:
        raise UsageError(f"{of}a candidate has 1 to {MAX_UNITS} units, not {len(units)}")
    return tuple(
        Answer(source=u.source, region=u.region, name=f"{of}unit {i}") for i, u in enumerate(units, 1)
    )

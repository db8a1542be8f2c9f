"""The tables as queries see them. `migrations.py` creates them; a test holds the two together.

Records are kept whole as JSON in `record`; the other columns are what queries look for.
"""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Float, ForeignKey, Integer, MetaData, String, Table, Text

metadata = MetaData()

meta = Table(
    "meta", metadata, Column("key", String, primary_key=True), Column("value", String, nullable=False)
)

environments = Table(
    "environments", metadata,
    Column("id", String, primary_key=True),
    Column("record", Text, nullable=False),
)  # fmt: skip

tasks = Table(
    "tasks", metadata,
    Column("id", String, primary_key=True),
    Column("name", String, nullable=False, index=True),
    Column("suite", String, nullable=False),
    Column("record", Text, nullable=False),
)  # fmt: skip

runs = Table(
    "runs", metadata,
    Column("id", String, primary_key=True),
    Column("task_id", ForeignKey("tasks.id"), nullable=False),
    Column("target", String, nullable=False),
    Column("seed", Integer, nullable=False),
    Column("config_key", String, nullable=False),
    Column("config", Text, nullable=False),
    Column("environment_id", ForeignKey("environments.id"), nullable=False),
    Column("started_at", String, nullable=False),
    Column("finished_at", String, nullable=False),  # empty: not finished
    Column("owner", String, nullable=False),  # host, pid and start time of the process that runs it
    Column("baselines", Text, nullable=False),  # JSON list of BaselineTiming
    Column("limit_record", Text, nullable=False),  # JSON of Limit, or empty
    Column("admission", Text, nullable=False),  # JSON of Admission, or empty
    Column("summary", Text, nullable=False),  # JSON of RunSummary, or empty
    Column("origin", String, nullable=False),
    Column("facts", Text, nullable=False, server_default=""),  # JSON of what agents reason from, or empty
    Column("admitted", Boolean),  # NULL: not known
    Column("seen_at", Float, nullable=False, server_default="0"),  # when its process last wrote, since 1970
)  # fmt: skip

units = Table(
    "units", metadata,
    Column("id", String, primary_key=True),
    Column("signature", String, nullable=False, index=True),
    Column("code_key", String, nullable=False),
    Column("family", String, nullable=False),
    Column("record", Text, nullable=False),
)  # fmt: skip

unit_numbers = Table(
    "unit_numbers", metadata,
    Column("number", Integer, primary_key=True),  # of its row in `unit_search`, the full-text index
    Column("unit_id", ForeignKey("units.id"), nullable=False, unique=True),
)  # fmt: skip

hypotheses = Table(
    "hypotheses", metadata,
    Column("id", String, primary_key=True),
    Column("record", Text, nullable=False),
)  # fmt: skip

candidates = Table(
    "candidates", metadata,
    Column("id", String, primary_key=True),
    Column("task_id", ForeignKey("tasks.id"), nullable=False),
    Column("target", String, nullable=False),
    Column("content_key", String, nullable=False, index=True),
    Column("lineage", Text, nullable=False),
)  # fmt: skip

candidate_units = Table(
    "candidate_units", metadata,
    Column("candidate_id", ForeignKey("candidates.id"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("unit_id", ForeignKey("units.id"), nullable=False, index=True),
)  # fmt: skip

candidate_parents = Table(
    "candidate_parents", metadata,
    Column("candidate_id", ForeignKey("candidates.id"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("parent_id", String, nullable=False, index=True),  # may be unknown here: an import can be partial
)  # fmt: skip

results = Table(
    "results", metadata,
    Column("number", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),  # Result.id where it was judged
    Column("candidate_id", ForeignKey("candidates.id"), nullable=False, index=True),
    Column("content_key", String, nullable=False),
    Column("task_id", ForeignKey("tasks.id"), nullable=False),
    Column("target", String, nullable=False),
    Column("environment_id", String, nullable=False),
    Column("status", String, nullable=False),
    Column("win", Boolean, nullable=False),
    Column("confirmed", Boolean, nullable=False),
    Column("speedup", Float, nullable=False),  # median against the best baseline; 0 when not timed
    Column("origin", String, nullable=False),
    Column("record", Text, nullable=False),
    Column("judged_at", String, nullable=False, server_default=""),  # ISO 8601 UTC; empty: not known
)  # fmt: skip

run_results = Table(
    "run_results", metadata,
    Column("run_id", ForeignKey("runs.id"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("result_number", ForeignKey("results.number"), nullable=False, index=True),
    Column("kind", String, nullable=False),
    Column("elapsed", Float, nullable=False),
)  # fmt: skip

exchanges = Table(
    "exchanges", metadata,
    Column("number", Integer, primary_key=True),
    Column("run_id", ForeignKey("runs.id"), nullable=False),
    Column("key", String, nullable=False),  # Exchange.key, once a run
    Column("role", String, nullable=False),
    Column("model", String, nullable=False),
    Column("created_at", String, nullable=False),
    Column("usd", Float),  # NULL: the price is not known
    Column("tokens", Integer, nullable=False),
    Column("origin", String, nullable=False),
    Column("record", Text, nullable=False),
)  # fmt: skip

lessons = Table(
    "lessons", metadata,
    Column("number", Integer, primary_key=True),
    Column("signature", String, nullable=False),
    Column("target", String, nullable=False),
    Column("remedy", Text, nullable=False),
    Column("created_at", String, nullable=False),
    Column("origin", String, nullable=False),
    Column("record", Text, nullable=False),  # its counts are as it was first learnt
)  # fmt: skip

lesson_outcomes = Table(
    "lesson_outcomes", metadata,
    Column("number", Integer, primary_key=True),
    Column("lesson", ForeignKey("lessons.number"), nullable=False, index=True),
    Column("created_at", String, nullable=False),
    Column("helped", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    Column("candidate", String, nullable=False),  # that worked or did not; empty: not known
)  # fmt: skip

foreign_kernels = Table(  # of other projects' archives: sources that are no units, with what is claimed of them
    "foreign_kernels", metadata,
    Column("id", String, primary_key=True),
    Column("op_name", String, nullable=False),
    Column("record", Text, nullable=False),
)  # fmt: skip

licenses = Table(  # of what was imported
    "licenses", metadata,
    Column("subject", String, primary_key=True),  # id of a candidate or of a foreign kernel
    Column("license", String, nullable=False),
)  # fmt: skip

activities = Table(  # what processes work on, while they do and afterwards: runs, suites, sessions of authors
    "activities", metadata,
    Column("id", String, primary_key=True),
    Column("kind", String, nullable=False),
    Column("parent", String, nullable=False),  # the suite that a run belongs to, or empty
    Column("run_id", String, nullable=False),  # empty until it is known
    Column("title", String, nullable=False),
    Column("target", String, nullable=False),
    Column("owner", String, nullable=False),  # host, pid and start time of its process
    Column("started_at", String, nullable=False),
    Column("seen_at", Float, nullable=False),  # when its process last wrote, since 1970
    Column("ended_at", String, nullable=False),  # empty: it has not ended, or its process was killed
    Column("ending", String, nullable=False),
    Column("state", Text, nullable=False),  # JSON of LiveState
)  # fmt: skip

activity_lines = Table(
    "activity_lines", metadata,
    Column("number", Integer, primary_key=True),
    Column("activity_id", ForeignKey("activities.id"), nullable=False),
    Column("written_at", String, nullable=False),
    Column("line", Text, nullable=False),
)  # fmt: skip

requests = Table(  # of people to what works: stop, pin, hypothesis, kernel
    "requests", metadata,
    Column("number", Integer, primary_key=True),
    Column("activity_id", ForeignKey("activities.id"), nullable=False),
    Column("run_id", String, nullable=False),  # empty until it is known
    Column("kind", String, nullable=False),
    Column("body", Text, nullable=False),  # JSON
    Column("made_at", String, nullable=False),
    Column("status", String, nullable=False),  # waiting, taken, done, refused
    Column("round", Integer, nullable=False),  # before which it was taken; -1: it was not
    Column("answered_at", String, nullable=False),
    Column("answer", Text, nullable=False),
)  # fmt: skip

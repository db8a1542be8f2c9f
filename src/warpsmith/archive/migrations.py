"""Numbered steps from an empty database to the present schema. A step is never changed once released: a new
one is added.

`migrate` takes an open write transaction and leaves the archive at the newest version, or raises
ArchiveError when the database holds something else or was written by a newer warpsmith. Statements are in
SQLite's words; `translate_statement` puts the types of their tables into PostgreSQL's, and what differs further is one
statement for each.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, inspect, text

from ..errors import ArchiveError
from .text_index import index_units
from .views import FIRST_VIEWS, VIEWS

Step = tuple[str | Mapping[str, str], ...]  # SQL statements, some by dialect

STEPS: tuple[Step, ...] = (
    (
        "CREATE TABLE environments (id VARCHAR PRIMARY KEY, record TEXT NOT NULL)",
        """CREATE TABLE tasks (
            id VARCHAR PRIMARY KEY, name VARCHAR NOT NULL, suite VARCHAR NOT NULL, record TEXT NOT NULL)""",
        "CREATE INDEX ix_tasks_name ON tasks (name)",
        """CREATE TABLE runs (
            id VARCHAR PRIMARY KEY, task_id VARCHAR NOT NULL REFERENCES tasks (id),
            target VARCHAR NOT NULL, seed INTEGER NOT NULL, config_key VARCHAR NOT NULL,
            config TEXT NOT NULL,
            environment_id VARCHAR NOT NULL REFERENCES environments (id), started_at VARCHAR NOT NULL,
            finished_at VARCHAR NOT NULL, owner VARCHAR NOT NULL, baselines TEXT NOT NULL,
            limit_record TEXT NOT NULL, admission TEXT NOT NULL, summary TEXT NOT NULL,
            origin VARCHAR NOT NULL)""",
        "CREATE INDEX ix_runs_task ON runs (task_id, target, config_key)",
        """CREATE TABLE units (
            id VARCHAR PRIMARY KEY, signature VARCHAR NOT NULL, code_key VARCHAR NOT NULL,
            family VARCHAR NOT NULL, record TEXT NOT NULL)""",
        "CREATE INDEX ix_units_signature ON units (signature)",
        "CREATE TABLE hypotheses (id VARCHAR PRIMARY KEY, record TEXT NOT NULL)",
        """CREATE TABLE candidates (
            id VARCHAR PRIMARY KEY,
            task_id VARCHAR NOT NULL REFERENCES tasks (id), target VARCHAR NOT NULL,
            content_key VARCHAR NOT NULL, lineage TEXT NOT NULL)""",
        "CREATE INDEX ix_candidates_content_key ON candidates (content_key)",
        """CREATE TABLE candidate_units (
            candidate_id VARCHAR NOT NULL REFERENCES candidates (id), position INTEGER NOT NULL,
            unit_id VARCHAR NOT NULL REFERENCES units (id), PRIMARY KEY (candidate_id, position))""",
        "CREATE INDEX ix_candidate_units_unit_id ON candidate_units (unit_id)",
        """CREATE TABLE candidate_parents (
            candidate_id VARCHAR NOT NULL REFERENCES candidates (id), position INTEGER NOT NULL,
            parent_id VARCHAR NOT NULL, PRIMARY KEY (candidate_id, position))""",
        "CREATE INDEX ix_candidate_parents_parent_id ON candidate_parents (parent_id)",
        """CREATE TABLE results (
            number INTEGER PRIMARY KEY, id VARCHAR NOT NULL UNIQUE,
            candidate_id VARCHAR NOT NULL REFERENCES candidates (id), content_key VARCHAR NOT NULL,
            task_id VARCHAR NOT NULL REFERENCES tasks (id), target VARCHAR NOT NULL,
            environment_id VARCHAR NOT NULL, status VARCHAR NOT NULL, win BOOLEAN NOT NULL,
            confirmed BOOLEAN NOT NULL, speedup FLOAT NOT NULL, origin VARCHAR NOT NULL,
            record TEXT NOT NULL)""",
        "CREATE INDEX ix_results_task ON results (task_id, target, environment_id, content_key)",
        "CREATE INDEX ix_results_winners ON results (task_id, target, confirmed, win)",
        "CREATE INDEX ix_results_candidate_id ON results (candidate_id)",
        """CREATE TABLE run_results (
            run_id VARCHAR NOT NULL REFERENCES runs (id), number INTEGER NOT NULL,
            result_number INTEGER NOT NULL REFERENCES results (number), kind VARCHAR NOT NULL,
            elapsed FLOAT NOT NULL, PRIMARY KEY (run_id, number))""",
        "CREATE INDEX ix_run_results_result_number ON run_results (result_number)",
    ),
    (
        """CREATE TABLE exchanges (
            number INTEGER PRIMARY KEY, run_id VARCHAR NOT NULL REFERENCES runs (id), key VARCHAR NOT NULL,
            role VARCHAR NOT NULL, model VARCHAR NOT NULL, created_at VARCHAR NOT NULL, usd FLOAT,
            tokens INTEGER NOT NULL, origin VARCHAR NOT NULL, record TEXT NOT NULL, UNIQUE (run_id, key))""",
        """CREATE TABLE lessons (
            number INTEGER PRIMARY KEY, signature VARCHAR NOT NULL, target VARCHAR NOT NULL,
            remedy TEXT NOT NULL, created_at VARCHAR NOT NULL, origin VARCHAR NOT NULL, record TEXT NOT NULL,
            UNIQUE (signature, target, remedy))""",
        """CREATE TABLE lesson_outcomes (
            number INTEGER PRIMARY KEY, lesson INTEGER NOT NULL REFERENCES lessons (number),
            created_at VARCHAR NOT NULL, helped INTEGER NOT NULL, failed INTEGER NOT NULL,
            candidate VARCHAR NOT NULL)""",
        "CREATE INDEX ix_lesson_outcomes_lesson ON lesson_outcomes (lesson)",
        "ALTER TABLE runs ADD COLUMN facts TEXT NOT NULL DEFAULT ''",
    ),
    (
        "ALTER TABLE results ADD COLUMN judged_at VARCHAR NOT NULL DEFAULT ''",
        {
            "sqlite": """UPDATE results SET judged_at = coalesce(json_extract(record, '$.judged_at'), '')
            WHERE json_valid(record)"""
        },
        "ALTER TABLE runs ADD COLUMN admitted BOOLEAN",
        {
            "sqlite": """UPDATE runs SET admitted = json_extract(admission, '$.admitted')
            WHERE admission != '' AND json_valid(admission)"""
        },
        "ALTER TABLE runs ADD COLUMN seen_at FLOAT NOT NULL DEFAULT 0",
        """CREATE TABLE unit_numbers (
            number INTEGER PRIMARY KEY, unit_id VARCHAR NOT NULL UNIQUE REFERENCES units (id))""",
        {
            "sqlite": "CREATE VIRTUAL TABLE unit_search USING fts5(words, content='', tokenize='unicode61')",
            "postgresql": """CREATE TABLE unit_search (
                rowid BIGINT PRIMARY KEY REFERENCES unit_numbers (number), words TSVECTOR NOT NULL)""",
        },
        {"postgresql": "CREATE INDEX ix_unit_search_words ON unit_search USING gin (words)"},
        # What a query needs besides the row's record, so that thousands of rows are weighed without being read.
        """CREATE INDEX ix_results_stones ON results (
            candidate_id, status, target, task_id, content_key, origin, confirmed, win, speedup, judged_at, number)""",
        "DROP INDEX ix_results_candidate_id",
        "CREATE INDEX ix_results_content_key ON results (content_key, task_id, number, status)",
        "CREATE INDEX ix_units_signature_id ON units (signature, id)",
        "DROP INDEX ix_units_signature",
        "CREATE INDEX ix_candidate_units_unit_id_of ON candidate_units (unit_id, candidate_id)",
        "DROP INDEX ix_candidate_units_unit_id",
        "CREATE INDEX ix_runs_started_at ON runs (started_at)",
        *FIRST_VIEWS,
    ),
    (
        "CREATE TABLE foreign_kernels (id VARCHAR PRIMARY KEY, op_name VARCHAR NOT NULL, record TEXT NOT NULL)",
        "CREATE TABLE licenses (subject VARCHAR PRIMARY KEY, license VARCHAR NOT NULL)",
    ),
    (  # units are found by today's names of their techniques: all are indexed anew
        {
            "sqlite": "INSERT INTO unit_search (unit_search) VALUES ('delete-all')",
            "postgresql": "DELETE FROM unit_search",
        },
    ),
    VIEWS,
    (
        """CREATE TABLE activities (
            id VARCHAR PRIMARY KEY, kind VARCHAR NOT NULL, parent VARCHAR NOT NULL, run_id VARCHAR NOT NULL,
            title VARCHAR NOT NULL, target VARCHAR NOT NULL, owner VARCHAR NOT NULL, started_at VARCHAR NOT NULL,
            seen_at FLOAT NOT NULL, ended_at VARCHAR NOT NULL, ending VARCHAR NOT NULL, state TEXT NOT NULL)""",
        "CREATE INDEX ix_activities_ended_at ON activities (ended_at, started_at)",
        "CREATE INDEX ix_activities_parent ON activities (parent)",
        """CREATE TABLE activity_lines (
            number INTEGER PRIMARY KEY, activity_id VARCHAR NOT NULL REFERENCES activities (id),
            written_at VARCHAR NOT NULL, line TEXT NOT NULL)""",
        "CREATE INDEX ix_activity_lines_activity_id ON activity_lines (activity_id, number)",
        """CREATE TABLE requests (
            number INTEGER PRIMARY KEY, activity_id VARCHAR NOT NULL REFERENCES activities (id),
            run_id VARCHAR NOT NULL, kind VARCHAR NOT NULL, body TEXT NOT NULL, made_at VARCHAR NOT NULL,
            status VARCHAR NOT NULL, round INTEGER NOT NULL, answered_at VARCHAR NOT NULL, answer TEXT NOT NULL)""",
        "CREATE INDEX ix_requests_activity_id ON requests (activity_id, status)",
        "CREATE INDEX ix_requests_run_id ON requests (run_id, status)",
    ),
)


def migrate(connection: Connection, name: str, steps: Sequence[Step] = STEPS) -> int:
    """Bring the archive to version `len(steps)` and return the version it had (0: new)."""
    version = _version(connection, name)
    if version > len(steps):
        raise ArchiveError(
            f"{name} was written by a newer warpsmith (schema {version}, this one knows {len(steps)}): "
            "upgrade warpsmith or pass another --archive"
        )
    for step in steps[version:]:
        for statement in step:
            spoken_here = translate_statement(statement, connection.dialect.name)
            if spoken_here:
                connection.exec_driver_sql(spoken_here)
    if version < len(steps):
        _write_version(connection, len(steps))
    if 0 < version < INDEXED <= len(steps):
        index_units(connection)
    return version


INDEXED = 5  # the version from which on the index holds the words that `text_index` makes of units today


def translate_statement(statement: str | Mapping[str, str], dialect: str) -> str:
    """The statement as this database takes it; empty when it is for the other one."""
    if not isinstance(statement, str):
        return statement.get(dialect, "")
    if dialect != "postgresql" or not statement.startswith(("CREATE TABLE", "ALTER TABLE")):
        return statement
    numbered = statement.replace(
        "number INTEGER PRIMARY KEY", "number BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY"
    )
    wide = re.sub(r"\bINTEGER\b", "BIGINT", numbered)  # SQLite's integers have 64 bits
    return re.sub(r"\b(VARCHAR|TEXT)\b", r'\1 COLLATE "C"', wide)  # text in the order of its bytes


def _write_version(connection: Connection, version: int) -> None:
    connection.execute(text("DELETE FROM meta WHERE key = 'schema_version'"))
    connection.execute(
        text("INSERT INTO meta (key, value) VALUES ('schema_version', :v)"), {"v": str(version)}
    )


def _version(connection: Connection, name: str) -> int:
    inspector = inspect(connection)
    tables = set(inspector.get_table_names())
    if not tables:
        statement = "CREATE TABLE meta (key VARCHAR PRIMARY KEY, value VARCHAR NOT NULL)"
        connection.exec_driver_sql(translate_statement(statement, connection.dialect.name))
        connection.execute(text("INSERT INTO meta (key, value) VALUES ('format', 'warpsmith')"))
        return 0
    columns = {c["name"] for c in inspector.get_columns("meta")} if "meta" in tables else set()
    rows: dict[str, str] = {}
    if columns >= {"key", "value"}:
        meta_rows = connection.execute(text("SELECT key, value FROM meta")).all()
        rows = {str(key): str(value) for key, value in meta_rows}
    if rows.get("format") != "warpsmith" or not rows.get("schema_version", "").isdigit():
        raise ArchiveError(f"{name} is not a warpsmith archive: move it away or pass --archive")
    return int(rows["schema_version"])

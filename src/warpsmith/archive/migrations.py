"""Numbered steps from an empty file to the present schema. A step is never changed once released: a new
one is added.

`migrate` takes an open write transaction and leaves the archive at the newest version, or raises
ArchiveError when the file holds something else or was written by a newer warpsmith.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, text

from ..errors import ArchiveError

Step = tuple[str, ...]  # SQL statements

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
)


def migrate(connection: Connection, name: str, steps: Sequence[Step] = STEPS) -> int:
    """Bring the archive to version `len(steps)` and return the version it had (0: new)."""
    found = _version(connection, name)
    if found > len(steps):
        raise ArchiveError(
            f"{name} was written by a newer warpsmith (schema {found}, this one knows {len(steps)}): "
            "upgrade warpsmith or pass another --archive"
        )
    for step in steps[found:]:
        for statement in step:
            connection.execute(text(statement))
    if found < len(steps):
        connection.execute(
            text("INSERT OR REPLACE INTO meta (key, value) VALUES ('schema_version', :v)"),
            {"v": str(len(steps))},
        )
    return found


def _version(connection: Connection, name: str) -> int:
    tables = set(connection.execute(text("SELECT name FROM sqlite_master WHERE type = 'table'")).scalars())
    if not tables:
        connection.execute(text("CREATE TABLE meta (key VARCHAR PRIMARY KEY, value VARCHAR NOT NULL)"))
        connection.execute(text("INSERT INTO meta (key, value) VALUES ('format', 'warpsmith')"))
        return 0
    columns = set(connection.execute(text("SELECT name FROM pragma_table_info('meta')")).scalars())
    rows: dict[str, str] = {}
    if columns >= {"key", "value"}:
        found = connection.execute(text("SELECT key, value FROM meta")).all()
        rows = {str(key): str(value) for key, value in found}
    if rows.get("format") != "warpsmith" or not rows.get("schema_version", "").isdigit():
        raise ArchiveError(f"{name} is not a warpsmith archive: move it away or pass --archive")
    return int(rows["schema_version"])

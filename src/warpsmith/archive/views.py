"""Results by what they are good for, as views of the database: winners, transfer seeds ("stones"), quarantined and failed.

Each result is of one kind, in this order. *quarantined*: a cheat passes on its task, so nothing judged on it proves
anything. *winner*: a confirmed win, judged by this archive's own judges, that no later confirmation or failure of the same
content in the same environment took the place of. *stone*: correct, worth building on. *screened*: worth a verdict, which it does not have. *failed*: any other ending. An
imported result is a stone at the best until it is judged again. The statements belong to a migration: a change is a
further step there.
"""

from __future__ import annotations

from typing import Literal, get_args

from sqlalchemy import Column, Integer, MetaData, String, Table

ResultKind = Literal["winners", "stones", "screened", "quarantined", "failed"]
KINDS: tuple[ResultKind, ...] = get_args(ResultKind)
FIRST_KINDS = ("winners", "stones", "quarantined", "failed")

FIRST_VIEWS = (
    """CREATE VIEW result_kinds AS SELECT r.number, r.id, r.task_id, r.target, r.environment_id, r.speedup, CASE
        WHEN r.task_id IN (SELECT q.task_id FROM runs q WHERE NOT q.admitted) THEN 'quarantined'
        WHEN r.status <> 'ok' THEN 'failed'
        WHEN r.win AND r.confirmed AND r.origin = 'local' AND NOT EXISTS (
            SELECT 1 FROM results l WHERE l.content_key = r.content_key AND l.task_id = r.task_id
            AND l.target = r.target AND l.environment_id = r.environment_id AND l.origin = 'local'
            AND l.number > r.number AND (l.confirmed OR l.status NOT IN ('ok', 'error')))
        THEN 'winners' ELSE 'stones' END AS kind FROM results r""",
    *(
        f"CREATE VIEW {name} AS SELECT number, id, task_id, target, environment_id, speedup "
        f"FROM result_kinds WHERE kind = '{kind}'"
        for kind, name in zip(
            FIRST_KINDS, ("winners", "stepping_stones", "quarantined", "failed"), strict=True
        )
    ),
)

# Since there are screened results: neither correct nor failed, and what was screened later takes nobody's place.
VIEWS = (
    *(
        f"DROP VIEW {name}"
        for name in ("winners", "stepping_stones", "quarantined", "failed", "result_kinds")
    ),
    FIRST_VIEWS[0]
    .replace("WHEN r.status <> 'ok'", "WHEN r.status = 'screened' THEN 'screened' WHEN r.status <> 'ok'")
    .replace("('ok', 'error')", "('ok', 'error', 'screened')"),
    *(
        f"CREATE VIEW {name} AS SELECT number, id, task_id, target, environment_id, speedup "
        f"FROM result_kinds WHERE kind = '{kind}'"
        for kind, name in zip(
            KINDS, ("winners", "stepping_stones", "screened", "quarantined", "failed"), strict=True
        )
    ),
)

result_kinds = Table(
    "result_kinds", MetaData(),
    Column("number", Integer, primary_key=True), Column("id", String), Column("task_id", String),
    Column("target", String), Column("kind", String),
)  # fmt: skip

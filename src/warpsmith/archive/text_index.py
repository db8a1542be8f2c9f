"""Kernels by text: the words of each unit in the database's own full-text index, FTS5 or tsvector.

A unit's words are those of its source, family, technique and signature, each once: names are split where their parts meet
(`vec_load`, `loadRow`), and words of the language itself are left out. Both databases so index the same words; the order
of what they find is their own (BM25, https://sqlite.org/fts5.html#the_bm25_function; `ts_rank`,
https://www.postgresql.org/docs/15/textsearch-controls.html#TEXTSEARCH-RANKING).
"""

from __future__ import annotations

import re

from pydantic import ValidationError
from sqlalchemy import Connection, select, text

from ..records import Unit
from . import schema as s

LONGEST = 40  # characters of a word
PART = re.compile(r"[A-Z]+(?![a-z])[0-9]*|[A-Za-z][a-z]*[0-9]*")
LANGUAGE = frozenset(
    re.findall(
        r"\w+",
        """
    auto bool break case char class const constexpr continue default define do double else endif
    enum false float for goto if ifdef ifndef in include inline int int32 int64 long main namespace
    noexcept nullptr of out pragma return short signed size sizeof static std stream struct switch
    task template the to true typedef typename unit unsigned using void volatile warpsmith while
    workspace
    """,
    )
)
INSERT = {
    "sqlite": "INSERT INTO unit_search (rowid, words) VALUES (:number, :words)",
    "postgresql": "INSERT INTO unit_search (rowid, words) VALUES (:number, to_tsvector('simple', :words))",
}
MATCH = {
    "sqlite": "unit_search MATCH :query",
    "postgresql": "unit_search.words @@ to_tsquery('simple', :query)",
}
RANK = {
    "sqlite": "bm25(unit_search)",
    "postgresql": "ts_rank(unit_search.words, to_tsquery('simple', :query)) DESC",
}
AND, OR = {"sqlite": " ", "postgresql": " & "}, {"sqlite": " OR ", "postgresql": " | "}
COMMON = 2000  # units with a word, from which it tells nothing by itself; ranking more would take too long


def words(*texts: str) -> list[str]:
    """The distinct words of texts, in order of their first appearance."""
    parts = (part.lower() for text_part in texts for part in PART.findall(text_part))
    return [w for w in dict.fromkeys(parts) if 1 < len(w) <= LONGEST and w not in LANGUAGE]


def index_unit(connection: Connection, unit: Unit, number: int | None = None) -> None:
    """Make a unit findable. `number`: the one that it has; None: it was just kept."""
    unit_words = words(unit.family, unit.technique, unit.region.signature, unit.source)
    if number is None:
        inserted = connection.execute(s.unit_numbers.insert().values(unit_id=unit.id)).inserted_primary_key
        assert inserted is not None
        number = inserted[0]
    values = {"number": number, "words": " ".join(unit_words)}
    connection.execute(text(INSERT[connection.dialect.name]), values)


def index_units(connection: Connection) -> None:
    """Index all units of an archive anew, under the numbers that they have. One that cannot be read is left out."""
    numbers = s.unit_numbers.c
    query = select(s.units.c.id, numbers.number).join_from(
        s.units, s.unit_numbers, numbers.unit_id == s.units.c.id, isouter=True
    )
    for row in connection.execute(query.order_by(numbers.number)).all():
        record = connection.execute(select(s.units.c.record).where(s.units.c.id == row.id)).scalar_one()
        try:
            unit = Unit.model_validate_json(record)
        except ValidationError:
            continue
        index_unit(connection, unit, row.number)


def matching_units(connection: Connection, query: str, most: int) -> list[str]:
    """Ids of units with all words of the query, newest first, then of those with any of its rarer words, best first."""
    query_words = words(query)
    if not query_words:
        return []
    units = dict.fromkeys(_matching(connection, AND, query_words, "unit_search.rowid DESC", most))
    rare = [w for w in query_words if not _common(connection, w)] if len(query_words) > 1 else []
    if rare and len(units) < most:
        units |= dict.fromkeys(_matching(connection, OR, rare, RANK[connection.dialect.name], most))
    return list(units)[:most]


def _matching(
    connection: Connection, junction: dict[str, str], wanted: list[str], order: str, most: int
) -> list[str]:
    # Each word counts once in a unit, so that those which have all of them differ in length alone: no rank is needed.
    dialect = connection.dialect.name
    query = (
        "SELECT n.unit_id FROM unit_search JOIN unit_numbers n ON n.number = unit_search.rowid "
        f"WHERE {MATCH[dialect]} ORDER BY {order} LIMIT :most"
    )
    values = {"query": junction[dialect].join(_quote(w, dialect) for w in wanted), "most": most}
    return list(connection.execute(text(query), values).scalars())


def _common(connection: Connection, word: str) -> bool:
    dialect = connection.dialect.name
    query = f"SELECT count(*) FROM (SELECT 1 FROM unit_search WHERE {MATCH[dialect]} LIMIT {COMMON}) AS found"
    return bool(connection.execute(text(query), {"query": _quote(word, dialect)}).scalar_one() >= COMMON)


def _quote(word: str, dialect: str) -> str:
    return f'"{word}"' if dialect == "sqlite" else word

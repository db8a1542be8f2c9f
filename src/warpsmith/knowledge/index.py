"""Full-text retrieval over the knowledge base: a query in any words, a target and a number in, passages out, best first.

The index is an FTS5 table in memory, ranked by BM25 with titles and keywords above the text
(https://sqlite.org/fts5.html#the_bm25_function); it is built in milliseconds, so nothing is cached on disk. Where SQLite
has no FTS5, pages are ranked by how many of the terms they hold, and a warning says so once.
"""

from __future__ import annotations

import sqlite3
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import closing

from ..records import Record
from .page import PERFORMANCE, Page, pages
from .query import find_families, match, terms

WEIGHTS = {"title": 6.0, "keywords": 8.0, "families": 3.0, "body": 1.0}


class Passage(Record):
    """A page that answers a query. `score`: higher is better; comparable within one query only."""

    page: str
    title: str
    text: str
    score: float
    sources: tuple[str, ...] = ()


class Index:
    """Safe to use from several threads."""

    def __init__(self, content: Sequence[Page] | None = None) -> None:
        self.content = tuple(pages() if content is None else content)
        self._lock = threading.Lock()
        self._rank: Callable[[list[str]], dict[int, float]] = self._count
        if has_fts5():
            self._table = _table(self.content)
            self._rank = self._rank_rows
        else:
            self._held = [_weigh_columns(page) for page in self.content]
            warnings.warn(
                "this Python's SQLite has no FTS5: knowledge is ranked by plain counts of words", stacklevel=2
            )

    def retrieve(self, query: str, target: str, k: int = 3, failure: bool = False) -> list[Passage]:
        """At most `k` passages for a target ("" for any), best first; none when nothing fits. Where the query calls operators, pages on others
        are left out. `failure`: it is about something that went wrong, so that pages on speed alone are left out.
        """
        words = terms(query)
        scores = self._rank(words) if words else {}
        families = find_families(query)
        fitting = [
            (score, i) for i, score in scores.items()
            if (not target or target in self.content[i].targets)
            and not (failure and self.content[i].kind == PERFORMANCE)
            and _is_about(self.content[i], families)
        ]  # fmt: skip
        best = sorted(fitting, key=lambda found: (-found[0], self.content[found[1]].name))[: max(k, 0)]
        return [_passage(self.content[i], score) for score, i in best]

    def _rank_rows(self, words: list[str]) -> dict[int, float]:
        weights = ", ".join(str(weight) for weight in WEIGHTS.values())
        query = f"SELECT rowid, -bm25(pages, {weights}) FROM pages WHERE pages MATCH ?"
        with self._lock:
            return dict(self._table.execute(query, (match(words),)).fetchall())

    def _count(self, words: list[str]) -> dict[int, float]:
        counts = {i: _count(columns, words) for i, columns in enumerate(self._held)}
        return {i: count for i, count in counts.items() if count}


def _is_about(page: Page, families: frozenset[str]) -> bool:
    """Return whether a page is about one of these families of operators, or about all."""
    return not families or not page.families or bool(families & set(page.families))


def has_fts5() -> bool:
    with closing(sqlite3.connect(":memory:")) as connection:
        try:
            connection.execute("CREATE VIRTUAL TABLE probe USING fts5(text)")
        except sqlite3.OperationalError:
            return False
    return True


def _table(content: Sequence[Page]) -> sqlite3.Connection:
    table = sqlite3.connect(":memory:", check_same_thread=False)
    columns = ", ".join(WEIGHTS)
    table.execute(f"CREATE VIRTUAL TABLE pages USING fts5({columns}, tokenize = 'porter unicode61')")
    table.executemany(
        f"INSERT INTO pages (rowid, {columns}) VALUES (?, ?, ?, ?, ?)",
        [(i, *_columns(page).values()) for i, page in enumerate(content)],
    )
    return table


def _columns(page: Page) -> dict[str, str]:
    """The texts of the columns, in the order of `WEIGHTS`."""
    return {
        "title": page.title, "keywords": ", ".join(page.keywords), "families": ", ".join(page.families), "body": page.body
    }  # fmt: skip


def _weigh_columns(page: Page) -> list[tuple[float, list[str]]]:
    """Weight and words of each column, without repetitions."""
    return [(WEIGHTS[column], terms(text, len(text))) for column, text in _columns(page).items()]


def _count(held: list[tuple[float, list[str]]], words: list[str]) -> float:
    """Weighted number of words that each column holds, as whole words or beginnings of words."""
    return sum(
        weight * sum(any(word.startswith(w) for word in column) for w in words) for weight, column in held
    )


def _passage(page: Page, score: float) -> Passage:
    return Passage(page=page.name, title=page.title, text=page.body, score=score, sources=page.sources)

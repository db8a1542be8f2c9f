"""Under which licence a candidate is: that of what it came with, and of every parent it was made from.

What an archive holds in; an SPDX expression out (https://spdx.github.io/spdx-spec/v2.3/SPDX-license-expressions/), in which
AND joins the licences of a candidate whose parents came under several.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..archive.foreign import licenses
from ..archive.reading import ArchiveReader
from ..errors import UsageError
from ..records import Candidate

UNKNOWN = "unknown"


class Licenses:
    """`default`: of what this archive's own runs made."""

    def __init__(self, archive: ArchiveReader, default: str = UNKNOWN) -> None:
        self._archive = archive
        self._given = licenses(archive)
        self._default = check_license(default)

    def find_license(self, candidate_id: str, imported: bool) -> str:
        """Return the licence of a candidate. One that came in without a licence stays unknown, whatever the default."""
        license = self._given.get(candidate_id)
        if license is not None:
            return license
        if imported:
            return UNKNOWN
        inherited = {self._given[c.id] for c in self._ancestors(candidate_id) if c.id in self._given}
        return join_licenses(inherited | {self._default})

    def find_foreign_license(self, kernel_id: str) -> str:
        return self._given.get(kernel_id, UNKNOWN)

    def _ancestors(self, candidate_id: str) -> list[Candidate]:
        return self._archive.ancestors(candidate_id) if self._given else []


def check_license(license: str) -> str:
    """Raises UsageError for what cannot be the name of a licence."""
    text = " ".join(license.split())
    if not text or not text.isprintable() or len(text) > 200 or any(c in text for c in "|\"'`{}[]:"):
        raise UsageError(f"{license!r} is no licence's name: give its SPDX identifier, as Apache-2.0")
    return text


def join_licenses(licenses: Iterable[str]) -> str:
    """Return the licence that holds for something made from parts under these."""
    parts = (part for name in licenses for part in ([f"({name})"] if " OR " in name else name.split(" AND ")))
    return " AND ".join(sorted(set(parts)))

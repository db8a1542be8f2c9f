"""The journal stores the results of a bundle, one line each, on the disk before the next candidate is judged.

Each line is `{"row": …, "seal": …, "mac": …}`. The seal is the SHA-256 of the row and of the seal before it, from the bundle's root on, so a line that
was changed, dropped, moved or taken from another bundle shows. With a key, `mac` is the seal's HMAC: who holds the key
judged it. A last line that was cut off by a kill is no line. A resumed run appends to the same file.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Annotated, Any, Literal, Self

from pydantic import Field, TypeAdapter, ValidationError

from ..records import Admission, BaselineTiming, Environment, Limit, Record, Result
from .manifest import BundleError, compute_digest, make_invalid_error, make_mac, same_seal

FORMAT = 1
ROWS = "results.jsonl"
Pass = Literal["search", "confirmation", "canary"]


class Begun(Record):
    """The first line."""

    kind: Literal["begun"] = "begun"
    format: int = FORMAT
    root: str  # of the bundle
    warpsmith: str


class TaskRow(Record):
    """A task's judge was opened, or could not be."""

    kind: Literal["task"] = "task"
    task_id: str
    environment: Environment
    seed: int
    at: str  # ISO 8601 UTC
    status: Literal["opened", "task-error", "judge-error"] = "opened"
    reason: str = ""  # one line; empty when opened
    baselines: tuple[BaselineTiming, ...] = ()
    limit: Limit | None = None
    admission: Admission | None = None


class ResultRow(Record):
    """A candidate was judged. Its first measurement, the one in fresh processes, or a canary's repetition."""

    kind: Literal["result"] = "result"
    phase: Pass
    result: Result


Row = Annotated[Begun | TaskRow | ResultRow, Field(discriminator="kind")]
_ROW: TypeAdapter[Begun | TaskRow | ResultRow] = TypeAdapter(Row)


class Journal:
    """A context manager: rows so far, and `append`. One process at a time may have it open."""

    def __init__(self, folder: Path, root: str, warpsmith: str, key: bytes | None = None) -> None:
        self.rows: list[TaskRow | ResultRow] = []
        self._seal = root
        self._path, self._root, self._key, self._version = folder / ROWS, root, key, warpsmith

    def __enter__(self) -> Self:
        """Open the file and read its rows. Raises BundleError when it is another bundle's, damaged or in use."""
        try:
            self._file: IO[bytes] = self._path.open("ab+")
        except OSError as error:
            raise BundleError(f"{self._path} cannot be written: {error.strerror}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise BundleError(
                f"{self._path} is being written by another process: wait for it, or stop it"
            ) from error
        self._resume()
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def append(self, row: Begun | TaskRow | ResultRow) -> None:
        """Append a row; it is on the disk when this returns. Raises BundleError when the disk is full."""
        data = json.loads(row.model_dump_json())
        self._seal = _compute_seal(self._seal, data)
        line = json.dumps({"row": data, "seal": self._seal, "mac": make_mac(self._key, "row", self._seal)})
        try:
            self._file.write(line.encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise BundleError(f"{self._path} cannot be written: {error.strerror}") from error
        if not isinstance(row, Begun):
            self.rows.append(row)

    def _resume(self) -> None:
        self._file.seek(0)
        content = self._file.read()
        complete_lines = content[: content.rfind(b"\n") + 1]
        self._file.truncate(len(complete_lines))
        for number, (row, seal, row_mac) in enumerate(_read_lines(complete_lines, self._path, self._root), 1):
            if not same_seal(row_mac, make_mac(self._key, "row", seal)):
                key_problem = (
                    "with another key"
                    if row_mac and self._key
                    else ("with a key" if row_mac else "without a key")
                )
                raise BundleError(
                    f"{self._path}:{number} was written {key_problem}: go on in the same way, or name another --out"
                )
            self._seal = seal
            if not isinstance(row, Begun):
                self.rows.append(row)
        if not complete_lines:
            self.append(Begun(root=self._root, warpsmith=self._version))


def read_rows(folder: Path, root: str, key: bytes | None = None) -> list[TaskRow | ResultRow]:
    """Read the results of the bundle with this root; with a key every line must carry its HMAC. Raises BundleError."""
    path = folder / ROWS
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BundleError(
            f"{path} cannot be read: {error.strerror}; give the folder that bundle run wrote"
        ) from error
    rows: list[TaskRow | ResultRow] = []
    for number, (row, seal, row_mac) in enumerate(_read_lines(data[: data.rfind(b"\n") + 1], path, root), 1):
        if key and not same_seal(row_mac, make_mac(key, "row", seal)):
            raise BundleError(
                f"{path}:{number} was not signed with this key: import it without --key-file, as unverified"
            )
        if not isinstance(row, Begun):
            rows.append(row)
    return rows


def _read_lines(data: bytes, path: Path, root: str) -> Iterator[tuple[Begun | TaskRow | ResultRow, str, str]]:
    """Yield (row, seal, mac) of each line and check the chain of seals."""
    seal = root
    for number, line in enumerate(data.splitlines(), 1):
        where = f"{path}:{number}"
        try:
            fields: dict[str, Any] = json.loads(line)
            seal = _compute_seal(seal, fields["row"])
            stated_seal, row_mac = str(fields["seal"]), str(fields["mac"])
        except (ValueError, KeyError, TypeError) as error:
            raise BundleError(f"{where} is damaged: it is no line of results") from error
        if not same_seal(stated_seal, seal):
            raise BundleError(
                f"{where} was changed, or a line before it is missing, or it is of another bundle"
            )
        yield _parse_row(fields["row"], where, number, root), seal, row_mac


def _parse_row(data: Any, where: str, number: int, root: str) -> Begun | TaskRow | ResultRow:
    try:
        row = _ROW.validate_json(json.dumps(data))
    except ValidationError as error:
        raise make_invalid_error(where, error) from error
    if isinstance(row, Begun) != (number == 1):
        raise BundleError(f"{where}: the first line, and no other, says which bundle it is")
    if isinstance(row, Begun) and (row.format != FORMAT or row.root != root):
        raise BundleError(
            f"{where}: results of another bundle, or of another format of warpsmith {row.warpsmith}"
        )
    return row


def _compute_seal(seal: str, row: Any) -> str:
    return compute_digest(f"{seal}\0{json.dumps(row, sort_keys=True, separators=(',', ':'))}".encode())

"""The files of a bundle as a folder or as one `.tar.gz`, to and from memory.

In: a path. Out: name → bytes, names checked against the few that a bundle may hold, so that no name can lead out of it.
Nothing is unpacked to disk. Links, other files, and more than the limits are refused before they are read.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import secrets
import shutil
import stat
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from .manifest import MANIFEST, SIGNATURE, BundleError

MOST_FILES, MOST_BYTES, ALL_BYTES = 20_000, 64 << 20, 1 << 30  # of a bundle; of one file; of all together
PACKED = (".tar.gz", ".tgz")
_NAME = re.compile(
    rf"{re.escape(MANIFEST)}|{re.escape(SIGNATURE)}|(tasks|candidates|hypotheses)/[0-9a-f]{{16}}\.json"
)


def read_files(path: Path) -> dict[str, bytes]:
    """Every file of the bundle at `path`. Raises BundleError."""
    try:
        found = _folder(path) if path.is_dir() else _packed(path)
        return _collected(path, found)
    except (tarfile.TarError, zlib.error, EOFError) as error:
        raise BundleError(f"{path} is damaged or cut off: {error}") from error
    except OSError as error:
        raise BundleError(f"{path} cannot be read: {error.strerror or error}") from error


def write_files(path: Path, files: Mapping[str, bytes]) -> None:
    """A folder, or an archive where `path` ends in .tar.gz; built aside, then renamed. Raises BundleError."""
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    if path.exists():
        raise BundleError(f"{path} is there already: name another, or remove it")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        (_pack if path.name.endswith(PACKED) else _unfold)(aside, files)
        aside.replace(path)
    except OSError as error:
        raise BundleError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
        aside.unlink(missing_ok=True)


def _collected(path: Path, found: Iterator[tuple[str, int, IO[bytes]]]) -> dict[str, bytes]:
    """Read what was found, within the limits. Sizes are announced, so that nothing is read to be refused."""
    files: dict[str, bytes] = {}
    total = 0
    for name, size, stream in found:
        total += size
        if not _NAME.fullmatch(name):
            raise BundleError(f"{path} holds {name!r}, which is no file of a bundle")
        if name in files:
            raise BundleError(f"{path} holds {name} twice")
        if size > MOST_BYTES or total > ALL_BYTES or len(files) >= MOST_FILES:
            raise BundleError(f"{path} is too large at {name}: more than any bundle needs")
        with stream:
            files[name] = stream.read(size + 1)
    return files


def _folder(path: Path) -> Iterator[tuple[str, int, IO[bytes]]]:
    for folder, names, files in os.walk(path):
        for name in sorted([*names, *files]):
            entry = Path(folder) / name
            mode = entry.lstat().st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise BundleError(f"{entry} is a link or a device: a bundle holds plain files only")
            if stat.S_ISREG(mode):
                yield entry.relative_to(path).as_posix(), entry.stat().st_size, entry.open("rb")


def _packed(path: Path) -> Iterator[tuple[str, int, IO[bytes]]]:
    with _Limited(path) as unpacked, tarfile.open(fileobj=unpacked, mode="r|") as tar:
        for member in tar:
            content = tar.extractfile(member) if member.isreg() else None
            if content is not None:
                yield member.name, member.size, content
            elif not member.isdir():
                raise BundleError(f"{path} holds {member.name!r}, a link or a device: plain files only")


class _Limited(gzip.GzipFile):
    """Ends in an error after so many bytes: a small file can unpack to any size."""

    left = ALL_BYTES + (MOST_FILES << 10)

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self.left -= len(data)
        if self.left < 0:
            raise tarfile.ReadError("it unpacks to more than any bundle needs")
        return data


def _unfold(path: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)


def _pack(path: Path, files: Mapping[str, bytes]) -> None:
    """The same files make the same archive: no times, no owners."""
    with gzip.GzipFile(path, "wb", mtime=0) as packed, tarfile.open(fileobj=packed, mode="w|") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))

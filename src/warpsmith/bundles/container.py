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

MAX_FILES, MAX_FILE_BYTES, MAX_TOTAL_BYTES = (
    20_000,
    64 << 20,
    1 << 30,
)  # of a bundle; of one file; of all together
PACKED = (".tar.gz", ".tgz")
_NAME = re.compile(
    rf"{re.escape(MANIFEST)}|{re.escape(SIGNATURE)}|(tasks|candidates|hypotheses)/[0-9a-f]{{16}}\.json"
)


def read_files(path: Path) -> dict[str, bytes]:
    """Read every file of the bundle at `path`. Raises BundleError."""
    try:
        members = _open_folder(path) if path.is_dir() else _open_archive(path)
        return _collect(path, members)
    except (tarfile.TarError, zlib.error, EOFError) as error:
        raise BundleError(f"{path} is damaged or cut off: {error}") from error
    except OSError as error:
        raise BundleError(f"{path} cannot be read: {error.strerror or error}") from error


def write_files(path: Path, files: Mapping[str, bytes]) -> None:
    """Write a folder, or an archive where `path` ends in .tar.gz, under a temporary name, then rename it. Raises BundleError."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    if path.exists():
        raise BundleError(f"{path} is there already: name another, or remove it")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        (_pack if path.name.endswith(PACKED) else _unfold)(temporary, files)
        temporary.replace(path)
    except OSError as error:
        raise BundleError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.unlink(missing_ok=True)


def _collect(path: Path, members: Iterator[tuple[str, int, IO[bytes]]]) -> dict[str, bytes]:
    """Read the members within the limits. Sizes are known beforehand, so that no member is read in vain."""
    files: dict[str, bytes] = {}
    total = 0
    for name, size, stream in members:
        total += size
        if not _NAME.fullmatch(name):
            raise BundleError(f"{path} holds {name!r}, which is no file of a bundle")
        if name in files:
            raise BundleError(f"{path} holds {name} twice")
        if size > MAX_FILE_BYTES or total > MAX_TOTAL_BYTES or len(files) >= MAX_FILES:
            raise BundleError(f"{path} is too large at {name}: more than any bundle needs")
        with stream:
            files[name] = stream.read(size + 1)
    return files


def _open_folder(path: Path) -> Iterator[tuple[str, int, IO[bytes]]]:
    for folder, names, files in os.walk(path):
        for name in sorted([*names, *files]):
            entry = Path(folder) / name
            mode = entry.lstat().st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise BundleError(f"{entry} is a link or a device: a bundle holds plain files only")
            if stat.S_ISREG(mode):
                yield entry.relative_to(path).as_posix(), entry.stat().st_size, entry.open("rb")


def _open_archive(path: Path) -> Iterator[tuple[str, int, IO[bytes]]]:
    with _LimitedGzip(path) as unpacked, tarfile.open(fileobj=unpacked, mode="r|") as tar:
        for member in tar:
            content = tar.extractfile(member) if member.isreg() else None
            if content is not None:
                yield member.name, member.size, content
            elif not member.isdir():
                raise BundleError(f"{path} holds {member.name!r}, a link or a device: plain files only")


class _LimitedGzip(gzip.GzipFile):
    """Raises an error after `left_bytes` bytes: a small file can unpack to any size."""

    left_bytes = MAX_TOTAL_BYTES + (MAX_FILES << 10)

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self.left_bytes -= len(data)
        if self.left_bytes < 0:
            raise tarfile.ReadError("it unpacks to more than any bundle needs")
        return data


def _unfold(path: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)


def _pack(path: Path, files: Mapping[str, bytes]) -> None:
    """Pack the files without times and owners, so that the same files make the same archive."""
    with gzip.GzipFile(path, "wb", mtime=0) as packed, tarfile.open(fileobj=packed, mode="w|") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))

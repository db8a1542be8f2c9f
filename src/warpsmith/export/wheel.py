"""A package's folder as a wheel, which pip installs without building anything.

In: the folder. Out: `<name>-0.1.0-py3-none-linux_<machine>.whl` (PEP 427): its files, the metadata, and a record of their hashes.
Equal folders make equal wheels.
"""

from __future__ import annotations

import base64
import hashlib
import platform
import zipfile
from pathlib import Path

from ..errors import UsageError

VERSION = "0.1.0"
_DATE = (2020, 1, 1, 0, 0, 0)  # of every file in it


def write_wheel(folder: Path, out: Path, summary: str) -> Path:
    """Write the wheel of the package in `folder` into `out`. Raises UsageError where it cannot be written."""
    name = folder.name
    tag = f"py3-none-linux_{platform.machine()}"
    info = f"{name}-{VERSION}.dist-info"
    contents = {
        f"{name}/{path.relative_to(folder)}": path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    contents[f"{info}/METADATA"] = _METADATA.format(
        name=name.replace("_", "-"), version=VERSION, summary=summary
    ).encode()
    contents[f"{info}/WHEEL"] = _WHEEL.format(tag=tag).encode()
    record = [f"{path},sha256={_hash(data)},{len(data)}" for path, data in contents.items()]
    contents[f"{info}/RECORD"] = "".join(f"{line}\n" for line in [*record, f"{info}/RECORD,,"]).encode()
    wheel = out / f"{name}-{VERSION}-{tag}.whl"
    try:
        out.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
            for path, data in contents.items():
                entry = zipfile.ZipInfo(path, _DATE)
                entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
                archive.writestr(entry, data)
    except OSError as error:
        raise UsageError(f"cannot write {wheel}: {error.strerror or error}") from error
    return wheel


def _hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


_METADATA = """\
Metadata-Version: 2.1
Name: {name}
Version: {version}
Summary: {summary}
Requires-Python: >=3.11
Requires-Dist: torch>=2.9
"""

_WHEEL = """\
Wheel-Version: 1.0
Generator: warpsmith
Root-Is-Purelib: false
Tag: {tag}
"""

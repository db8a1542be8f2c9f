"""`Manifest` lists the files of a bundle with their hashes; `Signature` seals it.

In: the bytes of its files. Out: a `Manifest` with the SHA-256 of each of them, and a `Signature`: the root, which is the SHA-256
of the manifest, and with a key the root's HMAC. A hash alone shows damage; it does not show who made the
bundle, since whoever changes a file can hash again. Only the HMAC does (RFC 2104).
"""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

from pydantic import Field, ValidationError

from ..errors import UsageError
from ..records import Record

FORMAT = 1
MANIFEST, SIGNATURE = "manifest.json", "signature.json"
MIN_KEY_BYTES = 16


class BundleError(UsageError):
    """A bundle, or results of one, that cannot be used; the message names the file and what is wrong with it."""


class FileHash(Record):
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    size: int = Field(ge=0)  # bytes


class Manifest(Record):
    format: int
    target: str
    warpsmith: str  # version that wrote it
    created_at: str  # ISO 8601 UTC
    files: dict[str, FileHash]  # path → hash; tasks and candidates are judged in this order
    canaries: int = Field(default=0, ge=0)  # candidates that are judged again at the end, to see drift


class Signature(Record):
    root: str  # SHA-256 of the manifest's bytes
    mac: str = ""  # HMAC of the root; empty: made without a key


def compute_digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def make_mac(key: bytes | None, purpose: str, text: str) -> str:
    """Compute an HMAC-SHA256, empty without a key. `purpose` keeps the seal of one thing from passing for that of another."""
    return hmac.new(key, f"{purpose}\0{text}".encode(), "sha256").hexdigest() if key else ""


def same_seal(seal: str, expected: str) -> bool:
    """Compare seals in constant time."""
    return hmac.compare_digest(seal.encode(), expected.encode())


def read_key(path: Path | None) -> bytes | None:
    """Read the secret in a file without blanks around it. Raises BundleError where it is missing or short."""
    if path is None:
        return None
    try:
        key = path.read_bytes().strip()
    except OSError as error:
        raise BundleError(f"key file {path} cannot be read: {error.strerror}") from error
    if len(key) < MIN_KEY_BYTES:
        raise BundleError(
            f"key file {path} holds less than {MIN_KEY_BYTES} bytes: openssl rand -hex 32 > {path}"
        )
    return key


def make_invalid_error(where: str, error: ValidationError) -> BundleError:
    """Describe in one line why a record that was read is not valid."""
    problem = error.errors(include_url=False, include_input=False)[0]
    location = ".".join(
        p if isinstance(p, str) and p.isprintable() else repr(p) for p in problem["loc"]
    )  # names are anybody's
    return BundleError(f"{where}: not a valid {error.title.lower()}: {location}: {problem['msg']}")

"""The place of an archive: a file, or a PostgreSQL database by URL, whose password is never printed.

A setting's text in, a `Path` or an `ArchiveUrl` out. Of an `ArchiveUrl` everything that is printed, logged or kept with a
run (`str`, `repr`, JSON) leaves the password out; `secret` is for the database driver alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import BeforeValidator, InstanceOf, PlainSerializer

SCHEMES = ("postgresql", "postgres", "postgresql+psycopg")
SECRETS = ("password", "sslpassword")  # of a URL's query, as libpq names them
UNREADABLE = (
    "the archive's URL cannot be read: give postgresql://user:password@host:port/database, "
    "with special characters of the password percent-encoded"
)


class ArchiveUrl:
    """A PostgreSQL archive's URL. Raises ValueError, which never quotes the URL, for what is none."""

    def __init__(self, secret: str) -> None:
        scheme, _, address = secret.partition("://")
        if scheme not in SCHEMES:
            raise ValueError(
                f"{scheme} archives are not supported: pass a file or postgresql://host/database"
            )
        self._secret = f"postgresql+psycopg://{address}"
        self._printable = _drop_secrets(address)

    @property
    def secret(self) -> str:
        """The whole URL, as SQLAlchemy takes it."""
        return self._secret

    def __str__(self) -> str:
        return self._printable

    def __repr__(self) -> str:
        return f"ArchiveUrl({self._printable!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ArchiveUrl) and other._secret == self._secret

    def __hash__(self) -> int:
        return hash(self._secret)


def archive_place(value: Any) -> Any:
    """Parse an archive's place: `sqlite:///path` and plain text are a Path, `postgresql://…` an ArchiveUrl; anything else stays as it is."""
    if not isinstance(value, str):
        return value
    if value.startswith("sqlite:///"):
        return Path(value.removeprefix("sqlite:///"))
    return ArchiveUrl(value) if "://" in value else Path(value)


def _drop_secrets(address: str) -> str:
    """Return the URL without its passwords. A URL that could hide a piece of a password in another part is refused."""
    try:
        parts = urlsplit(f"postgresql://{address}")
        _ = parts.port
    except ValueError:
        raise ValueError(UNREADABLE) from None
    if parts.netloc.count("@") > 1 or "@" in parts.path + parts.query or parts.fragment:
        raise ValueError(UNREADABLE)
    user, at, host = parts.netloc.rpartition("@")
    query = "&".join(p for p in parts.query.split("&") if p.partition("=")[0].lower() not in SECRETS)
    return f"postgresql://{user.partition(':')[0]}{at}{host}{parts.path}{'?' if query else ''}{query}"


ArchivePlace = Path | ArchiveUrl
ArchiveSetting = Annotated[
    Path | InstanceOf[ArchiveUrl],
    BeforeValidator(archive_place),
    PlainSerializer(str, return_type=str, when_used="json"),
]

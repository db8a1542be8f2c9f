"""The authors' service over HTTP, and its client: authors on one machine, the judge and its device on another.

In: an `AuthoringService`, who may use it, limits. Out: a server that runs until it is interrupted; on the other side a `RemoteAuthor` with the
calls of an author in this process. Needs the extra `serve`.
"""

from __future__ import annotations

from importlib.util import find_spec

from ..errors import UsageError


def expect_extra() -> None:
    """Raises UsageError where the packages of the extra are missing."""
    missing = [name for name in ("starlette", "uvicorn", "httpx2") if find_spec(name) is None]
    if missing:
        raise UsageError(f"{', '.join(missing)} is missing: pip install 'warpsmith[serve]'")

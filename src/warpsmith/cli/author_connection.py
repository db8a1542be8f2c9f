"""The author behind a command: of the service in this process, or of one elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import UsageError
from . import options as o

if TYPE_CHECKING:
    from ..authoring.author import Author

ServerOption = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        envvar="WARPSMITH_SERVER",
        help="Work on the machine of this `warpsmith serve`.",
    ),
]
TokenFileOption = Annotated[
    Path | None,
    typer.Option(
        "--token-file", metavar="FILE", envvar="WARPSMITH_TOKEN_FILE", help="Holds the token for --server."
    ),
]


@contextmanager
def open_author(
    server: str | None, token_file: Path | None, archive: str | None, target: str, baselines: str | None = None,
    progress: Callable[[str], None] = lambda text: None, resume: bool = False,
) -> Iterator[Author]:  # fmt: skip
    """`resume`: go on with jobs that an earlier process left. Raises UsageError for settings that are the server's."""
    if server is None:
        from ..authoring.author import LocalAuthor
        from ..authoring.service import AuthoringService

        with AuthoringService(o.config(archive, baselines), target, progress) as service:
            if resume:
                service.resume()
            yield LocalAuthor(service)
        return
    if archive is not None or baselines is not None:
        raise UsageError("--archive and --baselines are the server's own: leave them out with --server")
    if token_file is None:
        raise UsageError(
            "--server needs --token-file FILE (or WARPSMITH_TOKEN_FILE), which holds the server's token"
        )
    from ..serving import expect_extra

    expect_extra()
    from ..serving.access import read_token
    from ..serving.client import RemoteAuthor

    with RemoteAuthor(server, read_token(token_file), progress=progress) as author:
        yield author

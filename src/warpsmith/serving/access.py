"""Who may use the service: clients with a token each, from a file or one that was just drawn; and how much they may ask for.

In: a file of lines `NAME TOKEN` (or a bare `TOKEN`), readable by its owner alone. Out: which client a request comes from, and whether it comes
too often.
"""

from __future__ import annotations

import os
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..errors import UsageError
from ..web.tokens import make_token, match_token

MIN_TOKEN_CHARACTERS = 24
ONLY_CLIENT = "agent"  # the name of a client whose line has a token alone
MAX_ADDRESSES = 4096  # whose refused tokens are counted
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}")


def read_clients(path: Path) -> dict[str, str]:
    """Client → token. Raises UsageError, one line, which never quotes a token."""
    try:
        if os.name == "posix" and path.stat().st_mode & 0o077:
            raise UsageError(f"{path} can be read by others: chmod 600 {path}")
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path} cannot be read: {getattr(error, 'strerror', None) or 'it is not text'}"
        ) from error
    clients: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        name, token = (ONLY_CLIENT, words[0]) if len(words) == 1 else (words[0], words[1])
        if len(words) > 2 or not _NAME.fullmatch(name):
            raise UsageError(f"{path}, line {number}: write NAME TOKEN, the name in a-z, 0-9, dot, _ and -")
        if len(token) < MIN_TOKEN_CHARACTERS:
            raise UsageError(
                f"{path}, line {number}: the token has less than {MIN_TOKEN_CHARACTERS} characters"
            )
        if name in clients:
            raise UsageError(f"{path}, line {number}: there is a client {name} already")
        clients[name] = token
    if not clients:
        raise UsageError(
            f"{path} holds no token: add one with `warpsmith serve --token-file {path} --add-client NAME`"
        )
    return clients


def read_token(path: Path) -> str:
    """The token that a client presents: the first of the file. Raises UsageError."""
    return next(iter(read_clients(path).values()))


def add_client(path: Path, name: str) -> str:
    """Draw a token for a new client, append it to the file and return it. Raises UsageError."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"--add-client {name[:40]!r}: name it with a-z, 0-9, dot, _ and -, 40 characters at most"
        )
    if path.exists() and path.stat().st_size and name in read_clients(path):
        raise UsageError(f"{path} has a client {name} already")
    token = make_token()
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(file, "a", encoding="utf-8") as out:
            out.write(f"{name} {token}\n")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error
    return token


def find_client(clients: Mapping[str, str], presented: str | None) -> str | None:
    """Return whose token it is; None: nobody's. Every token is compared, so that the time tells nothing."""
    matches = [name for name, token in clients.items() if match_token(presented, token)]
    return matches[0] if matches else None


@dataclass
class Bucket:
    """Tokens of a bucket: one a request, refilled at a steady rate."""

    tokens: float
    at: float


class RateLimit:
    """So many requests at once, and so many a second after that, for each key. `clock` in seconds."""

    def __init__(self, burst: int, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._burst, self._rate, self._clock = burst, per_second, clock
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()

    def take(self, key: str) -> float:
        """Take from the key's bucket; return 0, or the seconds until there is enough again."""
        wait_s = self.look(key)
        if not wait_s:
            self._buckets[key].tokens -= 1.0
        return wait_s

    def look(self, key: str) -> float:
        """Return the seconds until the key has room for a request, and take nothing."""
        time_s = self._clock()
        bucket = self._buckets.setdefault(key, Bucket(self._burst, time_s))
        self._buckets.move_to_end(key)
        while len(self._buckets) > MAX_ADDRESSES:
            self._buckets.popitem(last=False)
        bucket.tokens = min(self._burst, bucket.tokens + (time_s - bucket.at) * self._rate)
        bucket.at = time_s
        return 0.0 if bucket.tokens >= 1.0 else (1.0 - bucket.tokens) / self._rate

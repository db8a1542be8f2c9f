"""Where a scripted service is served, and who may use it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warpsmith.serving.client import RemoteAuthor


@dataclass
class Served:
    url: str
    port: int
    tokens: dict[str, str]
    audit: Path

    def author(self, name: str = "ada") -> RemoteAuthor:
        from warpsmith.serving.client import RemoteAuthor

        return RemoteAuthor(self.url, self.tokens[name], patience_s=2.0)

"""The options of every command that can play on a Ray cluster, written once; `spread` makes them options of a command."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ..cluster.settings import RaySettings
from ..errors import UsageError


@dataclass(frozen=True)
class RayFlags:
    ray: Annotated[
        str | None,
        typer.Option(
            "--ray",
            metavar="auto|ADDRESS|local",
            help="Play on a Ray cluster; local starts one on this machine.",
        ),
    ] = None
    ray_accelerator: Annotated[
        str, typer.Option("--ray-accelerator", help="Only nodes with it play, as Ray names it: H100.")
    ] = ""
    ray_trust: Annotated[
        bool, typer.Option("--ray-trust", help="A win counts without a second worker's measurement.")
    ] = False
    key_file: Annotated[
        Path | None,
        typer.Option(
            "--key-file", help="A secret that seals what workers send, at this path on each machine."
        ),
    ] = None

    def make_cluster(self, lanes: int = 1) -> RaySettings | None:
        """Make the settings of the cluster; None without --ray. Raises UsageError for what means nothing without it."""
        if self.ray is not None:
            return RaySettings(self.ray, lanes, self.ray_accelerator, self.ray_trust, self.key_file)
        for option, value in (
            ("--ray-accelerator", self.ray_accelerator),
            ("--ray-trust", self.ray_trust),
            ("--key-file", self.key_file),
        ):
            if value:
                raise UsageError(
                    f"{option} says how a Ray cluster plays: give --ray auto, an address or local, too"
                )
        return None

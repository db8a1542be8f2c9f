"""Training sets as a folder that `datasets.load_dataset` opens: data files by kind and split, and a card.

An archive in; `README.md` and `data/KIND/SPLIT.jsonl|parquet` out. Examples are written down once as they come, so that the
archive may be larger than memory, then dealt out to the splits. The folder is made beside its place and then takes it,
whole or not at all.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..archive.reading import ArchiveReader
from ..errors import ArchiveError, UsageError
from .card import card
from .columns import DATASETS
from .examples import KINDS, Source
from .files import Format, Row, require_pyarrow, write_rows
from .licenses import Licenses
from .splits import SPLITS, split_tasks


@dataclass
class Contents:
    """The contents of a dataset, counted as it is made."""

    rows: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))  # kind → task → rows
    ties: dict[str, set[str]] = field(
        default_factory=lambda: defaultdict(set)
    )  # task → what ties it to others
    licenses: Counter[str] = field(default_factory=Counter)
    origins: Counter[str] = field(default_factory=Counter)
    environments: set[str] = field(default_factory=set)
    repeated: int = 0  # examples left out because another one says the same
    splits: dict[str, str] = field(default_factory=dict)  # task → split

    def sizes(self, kind: str) -> dict[str, int]:
        """Split → rows, without empty splits."""
        counted = Counter[str]()
        for task, rows in self.rows[kind].items():
            counted[self.splits[task]] += rows
        return {split: counted[split] for split in SPLITS if counted[split]}


def write_dataset(
    archive: ArchiveReader,
    out: Path,
    kinds: Sequence[str],
    format: Format,
    license: str,
    seed: int = 0,
    imported: bool = False,
) -> Contents:
    """`license` is of what this archive's own runs made. `imported`: take what other machines verified, too.

    Raises UsageError when `out` holds something, the licence is none, or pyarrow is needed and missing; ArchiveError when
    there is nothing to write, or it cannot be written.
    """
    source = Source(archive, Licenses(archive, license), imported)
    if format == "parquet":
        require_pyarrow()
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} is there already: give a folder that is new or empty")
    aside_path = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        aside_path.mkdir(parents=True)
        contents = _fill(source, aside_path, kinds, format, seed)
        aside_path.replace(out)
    except OSError as error:
        raise ArchiveError(f"cannot write {out}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(aside_path, ignore_errors=True)
    return contents


def _fill(source: Source, folder: Path, kinds: Sequence[str], format: Format, seed: int) -> Contents:
    contents = Contents()
    for kind in kinds:
        _write_down(source, kind, folder / f"{kind}.spool", contents)
    if not contents.ties:
        raise ArchiveError(
            f"{source.archive.database.name} holds nothing verified to learn from: run `warpsmith optimize` first"
            + ("" if source.imported else ", or pass --imported")
        )
    weights = Counter[str]()
    for kind in kinds:
        weights.update(contents.rows[kind])
    contents.splits = split_tasks(contents.ties, weights, seed)
    for kind in kinds:
        _deal_out(folder, kind, format, contents)
        (folder / f"{kind}.spool").unlink()
    versions = _environments(source.archive, contents)
    (folder / "README.md").write_text(card(contents, kinds, format, seed, versions), encoding="utf-8")
    return contents


def _write_down(source: Source, kind: str, spool: Path, contents: Contents) -> None:
    written: set[str] = set()
    with spool.open("w", encoding="utf-8") as file:
        for example in KINDS[kind](source):
            if example.key in written:
                contents.repeated += 1
                continue
            written.add(example.key)
            contents.rows[kind][example.task_id] += 1
            contents.ties[example.task_id] |= example.ties
            contents.licenses[example.row["license"]] += 1
            contents.origins[example.row["origin"]] += 1
            contents.environments.add(example.row["environment"])
            file.write(json.dumps(example.row) + "\n")


def _deal_out(folder: Path, kind: str, format: Format, contents: Contents) -> None:
    for split in contents.sizes(kind):
        path = folder / "data" / kind / f"{split}.{format}"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_rows(path, DATASETS[kind], _read_split(folder / f"{kind}.spool", split, contents), format)


def _read_split(spool: Path, split: str, contents: Contents) -> Iterator[Row]:
    with spool.open(encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            if contents.splits[row["task_id"]] == split:
                yield row


def _environments(archive: ArchiveReader, contents: Contents) -> list[str]:
    """Each machine with its software in a line."""
    environments = [archive.environment(environment) for environment in sorted(contents.environments)]
    return [
        f"{e.hardware}, {e.threads} threads, {e.os}, Python {e.python}, torch {e.torch}, {e.compiler}"
        + (f", driver {e.gpu_driver}" if e.gpu_driver else "")
        for e in environments
        if e is not None
    ]

"""A bundle: tasks as they were exported, candidates for them, and the hypotheses behind those, each record one file.

In: records, or the files of a bundle. Out: a `Bundle` in which everything was validated: hashes of the files, ids of the records, that
each candidate is for a task of the bundle and for its target. A task's record carries its Python and its graphs, so nothing is
exported again where the bundle is judged.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from .. import __version__
from ..records import Candidate, Hypothesis, Record, Task
from .container import read_files, write_files
from .manifest import (
    FORMAT,
    MANIFEST,
    SIGNATURE,
    BundleError,
    FileHash,
    Manifest,
    Signature,
    compute_digest,
    make_invalid_error,
    make_mac,
    same_seal,
)

AnyRecord = TypeVar("AnyRecord", bound=Record)


@dataclass(frozen=True)
class Bundle:
    manifest: Manifest
    signature: Signature
    tasks: Mapping[str, Task]  # by id, in the order in which they are judged
    candidates: Mapping[str, Candidate]
    hypotheses: Mapping[str, Hypothesis]
    files: Mapping[str, bytes]

    @property
    def root(self) -> str:
        return self.signature.root

    def candidates_of(self, task_id: str) -> list[Candidate]:
        return [c for c in self.candidates.values() if c.task_id == task_id]

    def write(self, path: Path) -> None:
        """Write to a new folder, or to a new file where the name ends in .tar.gz. Raises BundleError."""
        write_files(path, self.files)


def make_bundle(
    target: str, tasks: Iterable[Task], candidates: Iterable[Candidate], hypotheses: Iterable[Hypothesis] = (),
    canaries: int = 0, key: bytes | None = None,
) -> Bundle:  # fmt: skip
    """Make a bundle of each task and each content of a candidate once. Raises BundleError for modules in memory."""
    by_content = {c.content_key: c for c in reversed(list(candidates))}
    unique_candidates = list(reversed(by_content.values()))
    records_by_kind: list[tuple[str, Iterable[Record]]] = [
        ("tasks", tasks),
        ("candidates", unique_candidates),
        ("hypotheses", hypotheses),
    ]
    files = {
        f"{kind}/{r.id}.json": r.model_dump_json().encode()
        for kind, records in records_by_kind
        for r in records
    }
    manifest = Manifest(
        format=FORMAT, target=target, warpsmith=__version__,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        files={name: FileHash(sha256=compute_digest(data), size=len(data)) for name, data in files.items()},
        canaries=canaries,
    )  # fmt: skip
    text = manifest.model_dump_json(indent=1).encode()
    signature = Signature(root=compute_digest(text), mac=make_mac(key, "bundle", compute_digest(text)))
    return parse(
        {MANIFEST: text, SIGNATURE: signature.model_dump_json().encode(), **files}, "the bundle", key
    )


def read_bundle(path: Path, key: bytes | None = None) -> Bundle:
    """Read and check a bundle; with a key it must have been signed with it. Raises BundleError, one line."""
    return parse(read_files(path), str(path), key)


def parse(files: Mapping[str, bytes], where: str, key: bytes | None) -> Bundle:
    """Make a checked bundle of its files. Raises BundleError, which names `where`."""
    manifest, signature = _read_head(files, where)
    if key and not same_seal(signature.mac, make_mac(key, "bundle", signature.root)):
        key_problem = "with another key" if signature.mac else "without a key"
        raise BundleError(f"{where} was signed {key_problem}: do not trust it, or leave --key-file out")
    _check_files(manifest, files, where)
    bundle = Bundle(
        manifest, signature, _read_records(files, "tasks", Task, where), _read_records(files, "candidates", Candidate, where),
        _read_records(files, "hypotheses", Hypothesis, where), dict(files),
    )  # fmt: skip
    _check_references(bundle, where)
    # The manifest says in which order; a folder's files have none.
    order = {name: number for number, name in enumerate(manifest.files)}
    candidates = sorted(bundle.candidates, key=lambda i: order[f"candidates/{i}.json"])
    tasks = sorted(bundle.tasks, key=lambda i: order[f"tasks/{i}.json"])
    return Bundle(
        manifest, signature, {i: bundle.tasks[i] for i in tasks}, {i: bundle.candidates[i] for i in candidates},
        bundle.hypotheses, bundle.files,
    )  # fmt: skip


def _read_head(files: Mapping[str, bytes], where: str) -> tuple[Manifest, Signature]:
    """Read the manifest and check that it is unchanged since it was hashed, and of this version's format."""
    for name in (MANIFEST, SIGNATURE):
        if name not in files:
            raise BundleError(f"{where} is no bundle, or an incomplete one: it holds no {name}")
    manifest_bytes = files[MANIFEST]
    try:
        signature = Signature.model_validate_json(files[SIGNATURE])
        if not same_seal(signature.root, compute_digest(manifest_bytes)):
            raise BundleError(f"{where}: {MANIFEST} was changed: its hash is not the one in {SIGNATURE}")
        version = json.loads(manifest_bytes).get("format")
        if version != FORMAT:
            raise BundleError(
                f"{where} is of format {version}, this warpsmith reads {FORMAT}: use the same version"
            )
        return Manifest.model_validate_json(manifest_bytes), signature
    except ValidationError as error:
        raise make_invalid_error(where, error) from error
    except (ValueError, AttributeError) as error:
        raise BundleError(f"{where}: {MANIFEST} is not a manifest") from error


def _check_files(manifest: Manifest, files: Mapping[str, bytes], where: str) -> None:
    """Check that the files are exactly those of the manifest, each as it was hashed."""
    present = set(files) - {MANIFEST, SIGNATURE}
    for name in sorted(set(manifest.files) ^ present):
        problem = "does not belong to it" if name in present else "is missing"
        raise BundleError(f"{where}: {name} {problem}")
    for name, expected in manifest.files.items():
        if len(files[name]) != expected.size or not same_seal(compute_digest(files[name]), expected.sha256):
            raise BundleError(f"{where}: {name} was changed or damaged: its hash is not the manifest's")


def _read_records(
    files: Mapping[str, bytes], folder: str, kind: type[AnyRecord], where: str
) -> dict[str, AnyRecord]:
    records = {}
    for name in (n for n in files if n.startswith(f"{folder}/")):
        try:
            record = kind.model_validate_json(files[name])
        except ValidationError as error:
            raise make_invalid_error(f"{where}: {name}", error) from error
        if name != f"{folder}/{record.id}.json":
            raise BundleError(f"{where}: {name} holds {record.id}, made by another version of warpsmith")
        records[record.id] = record
    return records


def _check_references(bundle: Bundle, where: str) -> None:
    """Check the references between records: each candidate's task is in the bundle, and its target is the bundle's."""
    if not bundle.tasks:
        raise BundleError(f"{where} holds no task")
    for task in bundle.tasks.values():
        if task.source.kind == "memory":
            raise BundleError(
                f"{where}: {task.name} is a module in memory, which cannot travel: write it as a task file"
            )
    for candidate in bundle.candidates.values():
        if candidate.task_id not in bundle.tasks:
            raise BundleError(f"{where}: candidate {candidate.id} is for a task that is not in it")
        if candidate.target != bundle.manifest.target:
            raise BundleError(
                f"{where}: candidate {candidate.id} is for {candidate.target}, not {bundle.manifest.target}"
            )

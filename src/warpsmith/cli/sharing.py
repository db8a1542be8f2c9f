"""Commands that take an archive out and bring others in: `archive export`, `import`, `dataset` and `foreign`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ..errors import UsageError
from ..progress import counted
from . import options as o
from . import printing
from .results import archive_app, existing

FOREIGN_COLUMNS = (
    "id", "operation", "kernel", "claimed correct", "claimed over eager", "claimed over compile"
)  # fmt: skip


class FileFormat(StrEnum):
    jsonl = "jsonl"
    parquet = "parquet"


class DatasetKind(StrEnum):
    pairs = "pairs"
    preferences = "preferences"
    trajectories = "trajectories"
    all = "all"


LicenseOption = Annotated[
    str | None, typer.Option("--license", help="SPDX identifier, as Apache-2.0, of what names none itself.")
]


def register(app: typer.Typer) -> None:
    archive_app.command("export")(export_archive)
    archive_app.command("import")(import_archive)
    archive_app.command("dataset")(dataset)
    archive_app.command("foreign")(foreign)


def export_archive(
    out: Annotated[Path, typer.Argument(help="The file to write.")],
    format: Annotated[
        FileFormat | None,
        typer.Option("--format", help="jsonl or parquet; by the file's ending when not given."),
    ] = None,
    license: LicenseOption = None,
    archive: o.ArchiveOption = None,
    force: o.ForceOption = False,
) -> None:
    """Write the archive as JSON lines (everything), or as Parquet (a row for each result)."""
    from ..archive.transfer import export_jsonl
    from ..export.files import expect_free
    from ..sharing.files import require_pyarrow
    from ..sharing.kernels import export_parquet
    from ..sharing.licenses import UNKNOWN

    if not force:
        expect_free(out)
    if format is None:
        format = FileFormat.parquet if out.suffix == ".parquet" else FileFormat.jsonl
    if format is FileFormat.jsonl:
        if license is not None:
            raise UsageError("--license is a column of Parquet: add --format parquet")
        print(f"wrote {counted(export_jsonl(existing(archive), out), 'record')} to {out}")
        return
    require_pyarrow()
    print(f"wrote {counted(export_parquet(existing(archive), out, license or UNKNOWN), 'row')} to {out}")


def import_archive(
    source: Annotated[
        Path,
        typer.Argument(help="An archive's export, or kernels in the field's columns: JSON lines or Parquet."),
    ],
    license: LicenseOption = None,
    archive: o.ArchiveOption = None,
    json: o.JsonOption = None,
) -> None:
    """Add another machine's results, or others' kernels; they count as unverified until they are judged here."""
    from ..archive.store import Archive
    from ..sharing.files import is_parquet, require_pyarrow
    from ..sharing.importing import import_file
    from ..sharing.licenses import UNKNOWN

    if is_parquet(source):
        require_pyarrow()
    counts = import_file(Archive(o.config(archive).archive), source, license or UNKNOWN)
    if json is not None:
        left_out = sorted(counts.left_out)
        counted_new = {"results": counts.new_results, "runs": counts.new_runs, "foreign": counts.new_foreign}
        printing.write_json({"new": counted_new, "left_out": left_out}, json)
    if json == "-":
        return
    summary = f"{counted(counts.new_results, 'new result')}, {counted(counts.new_runs, 'new run')}"
    if counts.lines.get("foreign"):
        summary += f", {counted(counts.new_foreign, 'new foreign kernel')} (`warpsmith archive foreign`)"
    print(f"{summary} from {source}")
    if counts.left_out:
        print(f"not known, and left out: {', '.join(sorted(counts.left_out))}")


def dataset(
    out: Annotated[Path, typer.Argument(help="The folder to write; new or empty.")],
    license: Annotated[
        str, typer.Option("--license", help="SPDX identifier, as Apache-2.0, of what your own runs made.")
    ],
    kind: Annotated[
        DatasetKind, typer.Option("--kind", help="pairs, preferences, trajectories or all.")
    ] = DatasetKind.all,
    format: Annotated[FileFormat, typer.Option("--format", help="jsonl or parquet.")] = FileFormat.jsonl,
    seed: Annotated[int, typer.Option("--seed", min=0, max=o.MAX_SEED, help="Of the splits.")] = 0,
    imported: Annotated[
        bool, typer.Option("--imported", help="Take what other machines verified, too.")
    ] = False,
    archive: o.ArchiveOption = None,
    json: o.JsonOption = None,
) -> None:
    """Write training sets from what was verified, with a card, for `datasets.load_dataset`."""
    from ..sharing.columns import DATASETS
    from ..sharing.datasets import write_dataset

    kinds = list(DATASETS) if kind is DatasetKind.all else [kind.value]
    contents = write_dataset(existing(archive), out, kinds, format.value, license, seed, imported)
    if json is not None:
        printing.write_json({name: dict(contents.sizes(name)) for name in kinds}, json)
    if json == "-":
        return
    rows = [
        [name, *(str(contents.sizes(name).get(split, 0)) for split in ("train", "validation", "test"))]
        for name in kinds
    ]
    printing.print_rows(("kind", "train", "validation", "test"), rows)
    print(f"wrote {out}")


def foreign(
    kernel: Annotated[
        str | None, typer.Argument(metavar="ID", help="A foreign kernel's id or its beginning.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write it here as task.py and solution.py, to be judged.")
    ] = None,
    archive: o.ArchiveOption = None,
    json: o.JsonOption = None,
) -> None:
    """List imported kernels that are no units, as they claim to be; or write one as files for `warpsmith judge`."""
    from ..archive.foreign import foreign_kernel, foreign_kernels
    from ..sharing.solution import write_solution

    store = existing(archive)
    if kernel is None:
        if out is not None:
            raise UsageError("--out needs the id of one kernel: `warpsmith archive foreign` lists them")
        kernels = list(foreign_kernels(store))
        if json is not None:
            printing.write_json([k.model_dump(mode="json") for k in kernels], json)
        if json == "-":
            return
        rows = [
            [k.id, k.op_name, k.kernel_name, _describe_claim(k.correct), _times(k.speedup_native), _times(k.speedup_compile)]
            for k in kernels
        ]  # fmt: skip
        printing.print_rows(FOREIGN_COLUMNS, rows)
        return
    foreign_row = foreign_kernel(store, kernel)
    if json is not None:
        printing.write_json(foreign_row.model_dump(mode="json"), json)
    if out is None:
        if json != "-":
            print(foreign_row.cuda_code)
        return
    task, solution = write_solution(foreign_row, out)
    if json == "-":
        return
    print(f"wrote {solution}; judge it: warpsmith judge {solution} --task {task} --target cuda")


def _describe_claim(correct: bool | None) -> str:
    return "" if correct is None else "yes" if correct else "no"


def _times(speedup: float | None) -> str:
    return "" if speedup is None else f"{speedup:.2f}x"

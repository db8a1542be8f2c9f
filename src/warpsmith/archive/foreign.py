"""Kernels of other projects' archives, and the licences of what was imported.

A foreign kernel is a source with what its authors claim of it, in the columns of the AI CUDA Engineer Archive
(https://huggingface.co/datasets/SakanaAI/AI-CUDA-Engineer-Archive). It includes torch's headers and covers a whole module,
so it is no `Unit`: nothing here was built, verified or timed by our judge, and no search, winner or export reads this table.
Licences are kept by what they are of, a candidate or a foreign kernel, so that they outlive another judgement of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, select

from ..errors import ArchiveError
from ..records import Record
from . import schema as s
from .reading import ArchiveReader
from .rows import keep

PAGE = 500  # records read at once


class ForeignKernel(Record):
    """A kernel as another archive claims it to be. Times are in milliseconds, each speedup is a baseline's time over the
    kernel's; None: not said.
    """

    op_name: str  # "19_ReLU"
    level_id: int | None = None  # of KernelBench
    task_id: int | None = None  # number within the level
    kernel_name: str = ""
    cuda_runtime: float | None = None
    native_runtime: float | None = None  # of PyTorch, eager
    compile_runtime: float | None = None  # of torch.compile
    speedup_native: float | None = None
    speedup_compile: float | None = None
    cuda_code: str  # with torch's headers and a PYBIND11_MODULE
    module_code: str  # the reference: Model, get_inputs, get_init_inputs
    functional_code: str | None = (
        None  # the same with `module_fn`, whose arguments the kernel's `forward` takes
    )
    correct: bool | None = None
    max_diff: float | None = None  # largest absolute difference from the reference
    error: str | None = None
    ncu_profile: str | None = None
    torch_profile: str | None = None
    clang_tidy: str | None = None


def keep_foreign(connection: Connection, kernel: ForeignKernel) -> bool:
    """Keep a foreign kernel; return whether it is new here."""
    return keep(
        connection, s.foreign_kernels, id=kernel.id, op_name=kernel.op_name, record=kernel.model_dump_json()
    )


def foreign_kernels(archive: ArchiveReader) -> Iterator[ForeignKernel]:
    """Every one, by operation, a page at a time."""
    f, after = s.foreign_kernels.c, ("", "")
    while True:
        later = (f.op_name > after[0]) | ((f.op_name == after[0]) & (f.id > after[1]))
        query = select(s.foreign_kernels).where(later).order_by(f.op_name, f.id).limit(PAGE)
        with archive.database.transaction() as connection:
            rows = connection.execute(query).all()
        yield from (ForeignKernel.model_validate_json(row.record) for row in rows)
        if len(rows) < PAGE:
            return
        after = (rows[-1].op_name, rows[-1].id)


def foreign_kernel(archive: ArchiveReader, beginning: str) -> ForeignKernel:
    """The one whose id begins so. Raises ArchiveError when there is none, or more than one."""
    f = s.foreign_kernels.c
    query = select(f.record).where(f.id.startswith(beginning, autoescape=True)).limit(2)
    with archive.database.transaction() as connection:
        kernel_ids = connection.execute(query).scalars().all()
    if len(kernel_ids) != 1:
        problem = "no foreign kernel" if not kernel_ids else "more than one foreign kernel"
        raise ArchiveError(
            f"{problem} in {archive.database.name} has an id that begins with {beginning}: "
            "`warpsmith archive foreign` shows them"
        )
    return ForeignKernel.model_validate_json(kernel_ids[0])


def keep_license(connection: Connection, subject: str, license: str) -> None:
    """The licence that something came with. What has one, or was judged here before, keeps what it has."""
    r = s.results.c
    judged = select(r.number).where(r.candidate_id == subject, r.origin == "local").limit(1)
    if license and connection.execute(judged).first() is None:
        keep(connection, s.licenses, subject=subject, license=license)


def licenses(archive: ArchiveReader) -> dict[str, str]:
    """Id of a candidate or a foreign kernel → the licence it came with."""
    query = select(s.licenses.c.subject, s.licenses.c.license).order_by(s.licenses.c.subject)
    with archive.database.transaction() as connection:
        return {row.subject: row.license for row in connection.execute(query)}

"""Downloads: a kernel as a KernelBench file and as bare source in a zip, and archives as tables in Parquet with a card.

What cannot be written is left out: a task that is no file has no KernelBench file, a target whose compiler is missing writes neither.
"""

from __future__ import annotations

import io
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from .. import plugins
from ..archive import Entry, RunRecord
from ..archive.reading import ArchiveReader
from ..config import Config
from ..errors import UsageError, WarpsmithError
from ..records import Candidate, Task
from ..sharing.columns import ARCHIVE, table
from ..sharing.kernels import export_parquet
from ..targets.cuda import CudaTarget
from ..targets.native_target import NativeTarget
from .writing import Writer

CUDA_ARCH = "sm_90a"  # of kernels whose builds name none
ZIP_TIME = (2020, 1, 1, 0, 0, 0)  # the same archives give the same bytes
MAX_TABLE_ROWS = 20_000  # results of an archive whose table is written


class CudaText(CudaTarget):
    """A CUDA target that only writes headers and flags, so that no toolkit is needed."""

    def __init__(self, cache: Path, arch: str) -> None:
        NativeTarget.__init__(self, cache)
        self.arch, self.signature = arch, ""


class Downloads:
    """Writes kernels in other forms. A context: it has a folder for scratch."""

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="warpsmith-site-")
        self._targets: dict[tuple[str, str], NativeTarget | None] = {}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._folder.cleanup()

    def write(
        self, writer: Writer, path: str, task: Task, entry: Entry, run: RunRecord | None
    ) -> dict[str, str]:
        """Write `path`.kernelbench.py.txt and `path`.zip for a correct kernel; return what they are → name of the file."""
        from ..export import to_kernelbench  # it imports torch
        from ..export.files import proof

        candidate = entry.candidate
        target = self._find_target(entry)
        if target is None or entry.result.status != "ok" or not candidate.compiled:
            return {}
        words = proof(entry, run)
        try:
            files = {"package of sources (zip)": (f"{path}.zip", self._pack(task, candidate, target, words))}
            if task.source.kind == "kernelbench" and task.source.text:
                text = to_kernelbench(task, candidate, target, words)
                files["KernelBench file"] = (f"{path}.kernelbench.py.txt", text.encode("utf-8", "replace"))
        except (WarpsmithError, ValueError, SyntaxError, KeyError, AttributeError, RecursionError):
            return {}  # an imported record that does not fit together: its page says what it holds
        for name, data in files.values():
            writer.write_bytes(name, data)
        return {title: Path(name).name for title, (name, _) in files.items()}

    def _pack(self, task: Task, candidate: Candidate, target: NativeTarget, words: str) -> bytes:
        from ..export import list_source_files
        from ..export.files import task_text

        texts = list_source_files(task, candidate, target, words)
        if task.source.text:
            texts["reference.py"] = task_text(task)
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, text in sorted(texts.items()):
                data = text.encode("utf-8", "replace")
                archive.writestr(zipfile.ZipInfo(name, ZIP_TIME), data, zipfile.ZIP_DEFLATED)
        return buffer.getvalue()

    def _find_target(self, entry: Entry) -> NativeTarget | None:
        name = entry.candidate.target
        arch = (
            next((k.arch for b in entry.result.builds for k in b.kernels if k.arch), CUDA_ARCH)
            if name == "cuda"
            else ""
        )
        if (name, arch) not in self._targets:
            self._targets[name, arch] = self._make_target(name, arch)
        return self._targets[name, arch]

    def _make_target(self, name: str, arch: str) -> NativeTarget | None:
        cache = Path(self._folder.name) / "cache"
        if name == "cuda":
            return CudaText(cache, arch)
        try:
            config = Config.load()
            target: NativeTarget = plugins.load("targets", name)(cache, config.compiler, config.threads)
        except WarpsmithError:  # no compiler here, or an unknown target
            return None
        return target


def write_tables(writer: Writer, archives: Sequence[ArchiveReader]) -> None:
    """Write each archive as a table, and one card. Without pyarrow, and of very large archives, there is none."""
    names = []
    for number, archive in enumerate(archives, 1):
        results = archive.counts()["results"]
        path = writer.folder / "data" / f"kernels-{number}.parquet"
        if not 0 < results <= MAX_TABLE_ROWS:
            continue
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            names.append((path.name, export_parquet(archive, path, with_settings=False)))
        except UsageError:  # no pyarrow
            path.unlink(missing_ok=True)
            return
    if names:
        writer.write_text("data/README.md", _write_card(names))


def _write_card(names: Sequence[tuple[str, int]]) -> str:
    size = sum(rows for _, rows in names)
    files = "\n".join(f"- `{name}`: {rows} rows" for name, rows in names)
    first = names[0][0]
    return (
        "---\npretty_name: Kernels with their verdicts\ntags:\n- code\n- cuda\n- kernels\n---\n\n# Kernels with their verdicts\n\n"
        f"{size} results of the judge, a row each, failures as well as wins. `warpsmith archive import {first}` restores every record.\n\n"
        f"{files}\n\n## Columns\n\n{table(ARCHIVE)}\n\n"
        "A speedup is the time of a baseline over that of the kernel, measured side by side; trust the low end of its interval. "
        f'Licences are in the column of that name.\n\n```python\nimport pyarrow.parquet\nprint(pyarrow.parquet.read_table("{first}"))\n```\n'
    )

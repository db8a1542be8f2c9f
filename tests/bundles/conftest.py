"""Results of the sample bundle as a run leaves them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from bundle_sample import WHOLE, made

from warpsmith.bundles.bundle import read_bundle
from warpsmith.bundles.journal import Journal, ResultRow, TaskRow
from warpsmith.bundles.running import COPY, keep_copy


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """written(rows, key) → the folder that a run would have left; called again, the rows are added."""

    def write(
        rows: Sequence[TaskRow | ResultRow] = WHOLE, key: bytes | None = None, canaries: int = 0
    ) -> Path:
        folder = tmp_path / f"results-{bool(key)}-{canaries}"
        if not folder.exists():
            keep_copy(made(key, canaries), folder)
        with Journal(folder, read_bundle(folder / COPY).root, "0", key) as journal:
            for one in rows:
                journal.append(one)
        return folder

    return write

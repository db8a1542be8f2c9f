"""What a run of a bundle is told reaches its judge: a quick search, a share of the memory, processors for what is timed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bundle_sample import TASK, made

from warpsmith.bundles.running import _BundleRun
from warpsmith.config import Config
from warpsmith.errors import TaskError
from warpsmith.processes.buffers import Scratch
from warpsmith.targets.cpu import CpuTarget


def judge(folder: Path, scratch: Scratch, quick: bool, **settings: Any) -> Any:
    config = Config(cache=folder, **settings)
    run = _BundleRun(
        made(), SimpleNamespace(), config, SimpleNamespace(stage=print), CpuTarget(folder), {}, None, quick
    )  # type: ignore[arg-type]
    return run._make_judge(TASK, 1, scratch)


@pytest.mark.parametrize("quick", [False, True])
def test_settings_reach_the_judge(quick: bool, tmp_path: Path) -> None:
    with Scratch(tmp_path) as scratch:
        with_share = judge(tmp_path, scratch, quick, judge_memory_gb=0.5, timed_on=(0,))
        assert with_share.quick is quick
        assert with_share._timed_on == (0,)
        assert with_share._room() <= 1 << 29
        assert judge(tmp_path, scratch, quick)._room() > 1 << 29, "what is free, unless a share is given"


@pytest.mark.parametrize(("settings", "built"), [({}, []), ({"timed_on": (0,)}, [((TASK.main.name,), 3)])])
def test_what_has_processors_of_its_own_is_built_while_the_judge_opens(
    settings: Any, built: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def build_all(candidates: Any, task: Any, target: Any, variants: Any) -> None:
        seen.append((variants, len(candidates)))

    monkeypatch.setattr("warpsmith.bundles.running.build_all", build_all)
    bundle, journal = made(), SimpleNamespace(rows=[])
    selection = {TASK.id: frozenset(bundle.candidates)}
    config, target = Config(cache=tmp_path, **settings), CpuTarget(tmp_path)
    run = _BundleRun(bundle, journal, config, SimpleNamespace(), target, selection, None, True)  # type: ignore[arg-type]
    with run._build_ahead(TASK):
        pass
    assert seen == built


def test_a_share_that_is_too_small_is_told(tmp_path: Path) -> None:
    with Scratch(tmp_path) as scratch:
        opened = judge(tmp_path, scratch, False, judge_memory_gb=1e-9)
        with opened, pytest.raises(TaskError, match="GiB are available"):
            opened.open()

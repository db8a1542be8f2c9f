"""`optimize` on Ray, with workers in this process: what comes into the archive, what counts, how it ends, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cluster_plays import stand_ins
from fake_ray import FakeRay, Notes, Stage
from test_driver import list_winners

import warpsmith
from warpsmith import Config, api
from warpsmith.archive.store import Archive
from warpsmith.cli import ray_flags
from warpsmith.cluster import single_task, suite_ray
from warpsmith.cluster.settings import RaySettings
from warpsmith.errors import Interrupted, JudgeError, TaskError, UsageError
from warpsmith.progress import Observer
from warpsmith.records import Budget, RunSummary
from warpsmith.tasks.saved import ENDING

TASK = "class Model: pass\n"
make_settings = partial(RaySettings, one_a_machine=False, join_s=0.2, retry_s=0.01)
Optimize = Callable[..., RunSummary]


@pytest.fixture
def optimize(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Optimize:
    """optimize("a.py", trusts=…) on the stage's cluster; with ray=None on this machine, into an archive of its own."""
    for name in "ab":
        (tmp_path / f"{name}.py").write_text(TASK)
    monkeypatch.chdir(tmp_path)
    put_on_stage(stage, monkeypatch)

    def play(spec: str = "a.py", ray: str | None = "auto", **fields: Any) -> RunSummary:
        cluster = make_settings(ray, **fields.pop("cluster", {})) if ray is not None else None
        config = make_config(tmp_path, stage.archive.name if ray is not None else tmp_path / "alone.db")
        fields = {"budget": Budget(evaluations=6), "seed": 3, "observer": stage.notes, **fields}
        return api.optimize_task(spec, config=config, ray=cluster, **fields)

    return play


def make_config(folder: Path, archive: str | Path) -> Config:
    return Config(
        archive=Path(archive), cache=folder / "cache", near_limit=1e9, transplant=False, authors=False, lessons=False
    )  # fmt: skip


def put_on_stage(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the stage's cluster joined, and stand-ins play in its workers."""
    extra = {"folder": str(stage.folder), "confirm": "cluster_plays:confirm"}
    make_lane_settings = api.make_lane_settings

    @contextmanager
    def join(settings: RaySettings) -> Iterator[FakeRay]:
        yield stage.ray

    monkeypatch.setattr(suite_ray, "join_cluster", join)
    monkeypatch.setattr(api, "LANE_PLAY", "cluster_plays:play")
    monkeypatch.setattr(api, "make_lane_settings", lambda *a: make_lane_settings(*a) | extra)


def describe(summary: RunSummary) -> dict[str, Any]:
    """All of a summary that does not tell which run it was, or how long that took."""
    fields = summary.model_dump(mode="json", exclude={"run_id", "seconds", "seconds_by_stage"})
    return json.loads(json.dumps(fields))  # type: ignore[no-any-return]


def raise_in_worker(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> RunSummary:
        raise error

    monkeypatch.setattr("cluster_plays.play", fail)


# ---------------------------------------------------------------- what a search leaves


def test_a_search_on_a_cluster_ends_as_on_this_machine(optimize: Optimize, stage: Stage) -> None:
    summary = optimize()
    with stand_ins():
        alone = optimize(ray=None)
    assert describe(summary) == describe(alone)
    assert summary.status == "win"
    (run,) = [r for r in stage.archive.runs() if r.facts]
    assert (run.run_id, run.origin, run.summary) == (summary.run_id, "local", summary)
    assert summary.best is not None
    assert list_winners(stage.archive) == {"a": pytest.approx(summary.best.speedup.median)}
    assert stage.notes.over[-2] == summary  # the observer hears how it ended, once
    assert len(stage.notes.over) == 2


def test_the_win_is_judged_again_by_the_other_worker(optimize: Optimize, stage: Stage) -> None:
    optimize()
    judged = next(n for n in stage.notes.notes if "judging a of" in n)
    assert judged.partition(":")[0] != judged.split(" of ")[1].split()[0]


@pytest.mark.parametrize(("trusts", "status"), [(False, "no-win"), (True, "win")])
def test_a_win_without_a_second_worker_counts_only_where_it_is_trusted(
    trusts: bool, status: str, optimize: Optimize, stage: Stage
) -> None:
    stage.ray.alive = ["n0"]
    summary = optimize(cluster={"trusts": trusts})
    assert summary.status == status
    assert ("no other worker of its kind" in summary.reason) is not trusts
    assert bool(list_winners(stage.archive)) is trusts


def test_the_same_call_searches_again_unless_finished_runs_are_reused(
    optimize: Optimize, stage: Stage
) -> None:
    first = optimize()
    assert optimize(reuse=True).run_id == first.run_id
    assert optimize().run_id != first.run_id
    assert len([r for r in stage.archive.runs() if r.facts]) == 2


def test_a_search_whose_win_nobody_has_judged_yet_is_not_played_again(
    optimize: Optimize, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def press_ctrl_c(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(
            "warpsmith.cluster.claims.Claims.find_for",
            lambda self, _: press_ctrl_c() if self.waiting else None,
        )
        with pytest.raises(Interrupted, match="the same command goes on from there"):
            optimize()
    (snapshot,) = (stage.folder / "cache" / "ray").iterdir()
    begun = next(line for line in map(json.loads, snapshot.read_text().splitlines()) if line["kind"] == "run")
    assert optimize().run_id == begun["id"]
    assert not snapshot.exists()


def test_constants_reach_the_worker_and_those_of_another_search_are_refused(
    optimize: Optimize, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Mapping[str, Any]] = []
    play_run = api.play_lane_run
    monkeypatch.setattr(api, "play_lane_run", lambda *a: seen.append(a[3]) or play_run(*a))
    with pytest.raises(JudgeError, match="the constants of its task are not those that were asked for"):
        optimize(overrides={"shape": (2, 3)})  # the stand-in of a task has none
    assert [s["overrides"] for s in seen] == [{"shape": [2, 3]}] * 2


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("error", "kind"),
    [(TaskError("a.py defines no Model"), TaskError), (UsageError("bad"), UsageError), (JudgeError("lost"), JudgeError)],
)  # fmt: skip
def test_an_error_of_the_search_is_raised_as_on_this_machine(
    error: Exception, kind: type[Exception], optimize: Optimize, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    raise_in_worker(error, monkeypatch)
    with pytest.raises(kind, match=str(error)):
        optimize()
    assert not stage.notes.over


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"spec": "package.module:Class"}, "is imported, and a worker is sent one text: write a task file"),
        ({"spec": f"x{ENDING}"}, "has its weights in another file"),
        ({"replay": "3f2a"}, "needs no cluster"),
        ({"start_from": ["kernel.cpp"]}, "begins with no kernels of this machine"),
        ({"suite": api.SuitePlace("s")}, "call run_suite"),
        ({"overrides": {"dtype": object()}}, "cannot be sent to a worker"),
    ],
)  # fmt: skip
def test_what_cannot_be_had_on_a_cluster_is_refused_in_one_line(
    fields: dict[str, Any], reason: str, optimize: Optimize, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(single_task, "play_on_ray", lambda *_: pytest.fail("no cluster may be joined"))
    with pytest.raises(UsageError, match=reason) as refused:
        optimize(**fields)
    assert "\n" not in str(refused.value)


def test_a_task_that_is_not_there_is_told_before_a_cluster_is_joined(
    optimize: Optimize, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(single_task, "play_on_ray", lambda *_: pytest.fail("no cluster may be joined"))
    with pytest.raises(TaskError, match=r"cannot read gone\.py"):
        optimize("gone.py")


def test_a_live_module_is_refused_with_what_to_do() -> None:
    with pytest.raises(UsageError, match=r"write it as a task file .* call optimize_task\(FILE, ray=…\)"):
        warpsmith.optimize(lambda x: x, (), ray="auto")


# ---------------------------------------------------------------- the command


def test_the_command_prints_and_exits_as_without_a_cluster(
    optimize: Optimize, stage: Stage, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_flags, "RaySettings", make_settings)
    monkeypatch.setattr(
        "warpsmith.cli.search_flags.SearchFlags.config",
        lambda flags: make_config(stage.folder, flags.archive),
    )
    flags = ("--budget", "6", "--time", "0", "--seed", "3", "--quiet")
    far = command("optimize", "a.py", *flags, "--archive", str(stage.archive.name), "--ray", "auto")
    with stand_ins():
        near = command("optimize", "a.py", *flags, "--archive", "alone.db")
    runs = [next(r for r in Archive(Path(p)).runs() if r.facts) for p in (stage.archive.name, "alone.db")]
    assert near[0] == far[0] == 0
    assert mask(far[1], runs[0].summary) == mask(near[1], runs[1].summary)
    assert "confirmed in fresh processes" in far[1]
    code, out, _ = command(
        "optimize", "a.py", "b.py", *flags, "--archive", "two.db", "--ray", "auto", "--json", "-"
    )
    assert (code, [s["task"] for s in json.loads(out)]) == (0, ["a", "b"])


def mask(text: str, summary: RunSummary | None) -> list[str]:
    """The lines without the run's id and its times."""
    assert summary is not None
    lines = text.replace(summary.run_id, "RUN").splitlines()
    return [line.partition(" judged in ")[0] for line in lines if not line.startswith("  set-up")]


def test_an_error_of_the_worker_is_one_line_and_its_exit_code(
    optimize: Optimize, stage: Stage, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_flags, "RaySettings", make_settings)
    raise_in_worker(TaskError("a.py defines no Model"), monkeypatch)
    code, out, err = command("optimize", "a.py", "--archive", "x.db", "--ray", "auto", "--quiet")
    assert (code, out, err) == (2, "", "warpsmith: a.py defines no Model\n")


def test_notes_of_the_worker_are_shown(optimize: Optimize) -> None:
    notes: Observer = Notes()
    optimize(observer=notes)
    assert any(" joins: " in note for note in notes.notes)  # type: ignore[attr-defined]

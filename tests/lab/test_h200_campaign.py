"""The campaign's lanes and memory, and the page that it ends in: a row for every task, only confirmed wins counted."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _lab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "lab"))
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "bundles"))


def campaign(folder: Path) -> Any:
    from h200_campaign import Campaign, Lane

    lanes = [Lane(n % 2, (n,)) for n in range(4)]
    return Campaign(folder, folder, lanes, 100.0, 50.0, time.monotonic() + 60, 3, 48.0, 1, {9})


def work(name: str, host: float, device: float) -> Any:
    from h200_campaign import Work

    return Work(name, Path(name), Path(name), host, device)


def test_a_task_gets_the_emptiest_gpu_that_has_room(tmp_path: Path) -> None:
    here = campaign(tmp_path)
    here.running[0] = work("a", 10, 20)
    assert here.lanes[here.fits(work("b", 10, 45))].gpu == 1
    here.running[1] = work("b", 10, 45)
    assert here.fits(work("c", 10, 40)) is None, "no GPU has so much left"
    assert here.lanes[here.fits(work("d", 10, 30))].gpu == 0
    assert here.fits(work("e", 81, 1)) is None, "the host has not"
    del here.running[1]
    assert here.lanes[here.fits(work("f", 10, 90))].gpu == 1, "what needs more than a GPU gets one for itself"


@pytest.mark.parametrize("in_order", [False, True])
def test_tasks_start_by_what_they_need_or_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_order: bool
) -> None:
    from h200_campaign import Campaign

    here, judged = campaign(tmp_path), []
    here.lanes = here.lanes[:1]

    def judge(_: Campaign, number: int, asked: Any) -> None:
        judged.append(asked.name)
        assert here.progress(2).endswith(
            f"0 ended, running: {asked.name}; {3 - len(judged)} wait, 2 being packed"
        )
        del here.running[number]

    for name, made in (("measure_peaks", lambda _: None), ("pack", lambda _, asked: asked), ("judge", judge)):
        monkeypatch.setattr(Campaign, name, made)
    works = [work(name, 1, device) for name, device in (("a", 30), ("b", 10), ("c", 20))]
    for rank, one in enumerate(works):
        one.rank = rank * in_order
    here.waiting, here.ends = works, time.monotonic() + 40
    here.play([])
    assert judged == (["a", "b", "c"] if in_order else ["b", "c", "a"])


@pytest.mark.parametrize(("seconds", "order"), [(1000, "fbcl"), (100, "flbc")])
def test_canaries_are_first_and_last_or_when_little_time_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, order: str
) -> None:
    from h200_campaign import FIRST, LAST, Campaign, Work

    here, judged = campaign(tmp_path), []
    here.lanes = here.lanes[:1]

    def judge(_: Campaign, number: int, asked: Any) -> None:
        judged.append(asked.canary[:1] or asked.name)
        time.sleep(0.5)  # the others are packed meanwhile
        del here.running[number]

    for name, made in (("measure_peaks", lambda _: None), ("pack", lambda _, asked: asked), ("judge", judge)):
        monkeypatch.setattr(Campaign, name, made)
    first, last = (Work.of_canary("level1/95", tmp_path, when, "20261123T160000") for when in (FIRST, LAST))
    here.ends = time.monotonic() + seconds
    here.play([first, work("b", 1, 10), work("c", 1, 20)], [last])
    assert "".join(judged) == order
    assert first.bundle == last.bundle
    assert last.results == tmp_path / "canaries" / "20261123T160000-last-level1_95"


def test_memory_of_the_host_is_what_is_left_of_the_containers_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import h200_campaign

    limit, used = tmp_path / "max", tmp_path / "current"
    monkeypatch.setattr(h200_campaign, "LIMITS", (limit, used))
    free = h200_campaign.host_gib()
    assert free > 0.1, "no container"
    used.write_text(f"{1 << 20}\n")
    limit.write_text("max\n")
    assert h200_campaign.host_gib() > 0.1, "no limit"
    limit.write_text(f"{3 << 20}\n")
    assert h200_campaign.host_gib() == 2 / 1024


def packing(folder: Path) -> Any:
    """A campaign with one task to pack: a softmax over 512 columns, with one candidate."""
    import os

    level = folder / "KernelBench" / "level1"
    level.mkdir(parents=True)
    (level / "1_Softmax.py").write_text(
        "import torch\nbatch_size = 64\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return torch.softmax(x, 1)\n"
        "def get_inputs():\n    return [torch.rand(batch_size, 512)]\ndef get_init_inputs():\n    return []\n"
    )
    (folder / "log").mkdir()
    here = campaign(folder)
    here.shared, here.candidates = os.sched_getaffinity(0), 1
    return here


def packed_task(here: Any, bundle: Path, whole: bool = False) -> Any:
    from warpsmith.bundles.bundle import read_bundle

    asked = work("level1/1", 0, 0)
    asked.bundle, asked.whole = bundle, whole
    assert here.pack(asked).failed == ""
    (task,) = read_bundle(bundle).tasks.values()
    return task


def test_a_task_is_packed_in_its_dtype_and_with_a_smaller_batch_where_it_takes_too_much(
    tmp_path: Path,
) -> None:
    """Unless it is wanted whole."""
    here, packed = packing(tmp_path), []
    here.memory = 0.001
    for number, (whole, more) in enumerate([(False, ()), (True, ()), (True, ("--dtype", "bfloat16"))]):
        here.more = more
        task = packed_task(here, tmp_path / f"bundle{number}", whole=whole)
        packed.append((task.name, task.graph.inputs[0].spec.dtype, dict(task.main.overrides)))
    assert packed == [
        ("1_Softmax", "float32", {"batch_size": 32}),
        ("1_Softmax", "float32", {}),
        ("1_Softmax_bfloat16", "bfloat16", {}),
    ]


def test_what_a_task_needs_grows_with_it() -> None:
    from bundle_sample import made
    from h200_campaign import LEAST_GIB, needs

    host, device = needs(made())
    assert host == LEAST_GIB
    assert 0 < device < 10


def test_two_tasks_with_4_gib_of_inputs_are_not_judged_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Baselines that were compiled at the same time left 3.75 of 140 GiB, and the one that tunes itself had no room."""
    from bundle_sample import made
    from h200_campaign import needs

    bundle = made()
    task = next(iter(bundle.tasks.values()))
    first, *others = task.graph.inputs
    side = 32768
    large = first.spec.model_copy(update={"shape": (side, side), "stride": (side, 1)})
    inputs = (first.model_copy(update={"spec": large}), *others)
    graph = task.graph.model_copy(update={"inputs": inputs})
    monkeypatch.setattr(type(task), "graph", graph)
    assert 134 / 2 < needs(bundle)[1] < 134


def results(folder: Path, rows: Any) -> None:
    from bundle_sample import made

    from warpsmith.bundles.journal import Journal

    bundle = made()
    bundle.write(folder / "bundle")
    with Journal(folder, bundle.root, "0") as journal:
        for row in rows:
            journal.append(row)


def test_every_task_has_a_row_and_only_confirmed_wins_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import h200_report
    from bundle_sample import FAST, FIRSTS, WHOLE, opening, result, row

    level = tmp_path / "kb" / "KernelBench" / "level1"
    level.mkdir(parents=True)
    cases = {
        "win": WHOLE, "not confirmed": (opening(), *FIRSTS), "wrong": (*WHOLE[:4], row("confirmation", result(FAST, "incorrect"))),
        "no win": (*WHOLE[:4], row("confirmation", result(FAST, 0.9, confirmed=True))),
        "not judged": (opening(status="judge-error", reason="no room at all", baselines=(), limit=None),),
    }  # fmt: skip
    for number, rows in enumerate(cases.values(), 1):
        (level / f"{number}_Task.py").touch()
        results(tmp_path / "campaign" / "results" / f"level1_{number}", rows)
    for number in (6, 10):
        (level / f"{number}_Never.py").touch()
    (tmp_path / "campaign" / "log").mkdir()
    (tmp_path / "campaign" / "log" / "level1_6.pack").write_text(
        "left out: /some/where/6_Never.py is too large\nerror: none\n"
    )
    monkeypatch.chdir(tmp_path)
    assert h200_report.main(["kb", "out/page", "campaign", "--keep", "kept"]) == 0
    found = {row["task"]: row for row in h200_report.collected(Path("kb"), [Path("campaign")])}
    assert list(found) == [*(f"level1/{n}" for n in range(1, 7)), "level1/10"], "in order, none left out"
    assert [found[f"level1/{n}"]["status"] for n in range(1, 6)] == list(cases)
    assert found["level1/6"]["reason"] == "left out: 6_Never.py is too large"
    assert found["level1/10"]["reason"] == "no run of it yet"
    assert found["level1/5"]["reason"] == "no room at all"
    assert "1 wins of 7, geometric mean over all 1.16" in capsys.readouterr().out  # 2.9 and six times 1
    page = (tmp_path / "out" / "page.md").read_text()
    assert "geometric mean over all, best baseline | 1.16" in page
    assert "| wins at KernelBench's own sizes | 1 |" in page
    assert str(tmp_path) not in page
    from h200_campaign import finished, settled

    assert finished(Path("campaign")) == {"level1/1", "level1/3", "level1/4"}, "the others go on"
    assert settled(Path("out/page.jsonl")) == {"level1/1", "level1/3", "level1/4"}
    packed = {f.name: f.read_bytes() for f in Path("kept").iterdir()}
    assert set(packed) == {f"level1_{n}.tar.gz" for n in (1, 3, 4)}, "what was confirmed"
    assert h200_report.main(["kb", "out/again", "kept", "campaign", "--keep", "kept"]) == 0
    assert {f.name: f.read_bytes() for f in Path("kept").iterdir()} == packed
    assert (tmp_path / "out" / "again.jsonl").read_text() == (tmp_path / "out" / "page.jsonl").read_text()


def test_a_unit_that_does_not_build_at_other_shapes_says_nothing_against_an_earlier_win(
    tmp_path: Path,
) -> None:
    import h200_report
    from bundle_sample import FAST, WHOLE, result, row

    unbuilt = row("confirmation", result(FAST, "build-failed"))
    for name, rows in (("later", (*WHOLE[:4], unbuilt)), ("earlier", WHOLE)):
        results(tmp_path / name / "results" / "level1_1", rows)
    folders = [tmp_path / "later", tmp_path / "earlier"]
    found = [h200_report.row("level1/1", "1_Task.py", f) for f in (folders[:1], folders)]
    assert [r["status"] for r in found] == ["not confirmed", "win"]
    assert found[0]["reason"]


def test_what_another_candidate_lost_later_takes_no_win_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import json

    import h200_report
    from bundle_sample import FAST, FASTER, FIRSTS, WHOLE, opening, result, row

    level = tmp_path / "kb" / "KernelBench" / "level1"
    level.mkdir(parents=True)
    lost = {
        "another": (opening(), *FIRSTS, row("confirmation", result(FAST, 0.8, confirmed=True, at=9))),
        "itself": (opening(), *FIRSTS, row("confirmation", result(FASTER, 0.9, confirmed=True, at=9))),
        "another, wrong": (opening(), *FIRSTS, row("confirmation", result(FAST, "incorrect"))),
        "itself, wrong": (opening(), *FIRSTS, row("confirmation", result(FASTER, "incorrect"))),
    }
    for number, rows in enumerate(lost.values(), 1):
        (level / f"{number}_Task.py").touch()
        results(tmp_path / "now" / "results" / f"level1_{number}", rows)
        results(tmp_path / "first" / "results" / f"level1_{number}", WHOLE)
    monkeypatch.chdir(tmp_path)
    assert h200_report.main(["kb", "page", "now", "first", "--keep", "kept"]) == 0
    rows = [json.loads(line) for line in Path("page.jsonl").read_text().splitlines()]
    assert [r["status"] for r in rows] == ["win", "no win", "win", "wrong"]
    assert [r["techniques"] for r in rows] == [["faster"]] * 4
    assert [[o["techniques"] for o in r.get("others", ())] for r in rows] == [[["fast"]], [], [["fast"]], []]
    page = Path("page.md").read_text()
    assert "- level1/1: fast: no win: 0.80 times as fast as eager" in page
    assert "- level1/3: fast: wrong: " in page
    assert h200_report.main(["kb", "again", "kept", "--before", "page.jsonl"]) == 0
    assert Path("again.jsonl").read_text() == Path("page.jsonl").read_text(), "what won was kept"


def test_what_an_earlier_page_said_is_kept_where_campaigns_say_less(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import json

    import h200_report
    from bundle_sample import FIRSTS, WHOLE, opening

    level = tmp_path / "kb" / "KernelBench" / "level1"
    level.mkdir(parents=True)
    cases: tuple[Any, ...] = (WHOLE, WHOLE, (opening(), *FIRSTS), (opening(), *FIRSTS), None)
    for number, rows in enumerate(cases, 1):
        (level / f"{number}_Task.py").touch()
        if rows is not None:
            results(tmp_path / "first" / "results" / f"level1_{number}", rows)
    monkeypatch.chdir(tmp_path)
    assert h200_report.main(["kb", "page", "first"]) == 0
    before = [json.loads(line) for line in Path("page.jsonl").read_text().splitlines()]
    before[1] |= {"status": "not judged", "reason": "no room"}
    Path("before.jsonl").write_text("".join(json.dumps(row) + "\n" for row in before))
    for number in (
        1,
        2,
    ):  # all that is kept: 1 as it was, and 2 has a verdict now; of 3 and 4 nothing is left
        results(tmp_path / "now" / "results" / f"level1_{number}", WHOLE)
    results(
        tmp_path / "now" / "results" / "level1_4",
        (opening(status="judge-error", reason="no room", baselines=(), limit=None),),
    )
    assert h200_report.main(["kb", "again", "now", "--before", "before.jsonl", "--keep", "kept"]) == 0
    again = [json.loads(line) for line in Path("again.jsonl").read_text().splitlines()]
    assert [row["status"] for row in again] == ["win", "win", "not confirmed", "not confirmed", "not judged"]
    assert again[2:] == before[2:]
    assert "CAMPAIGN --before ROWS`" in Path("again.md").read_text()
    assert h200_report.main(["kb", "last", "kept", "--before", "again.jsonl", "--keep", "kept"]) == 0
    assert Path("last.jsonl").read_text() == Path("again.jsonl").read_text(), (
        "from what is kept and the rows alone"
    )
    Path("text").write_text("no rows\n")
    for wrong in ("none.jsonl", "text"):
        with pytest.raises(SystemExit):
            h200_report.main(["kb", "again", "now", "--before", wrong])
        assert f"{wrong} holds no rows of h200_report.py" in capsys.readouterr().err


def test_a_confirmed_row_without_its_campaign_is_not_kept_again(tmp_path: Path) -> None:
    import h200_report

    h200_report.keep([{"task": "level1/1", "file": "1.py", "status": "win"}], [], tmp_path / "kept")
    assert not any((tmp_path / "kept").iterdir())


def test_a_folder_without_results_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import h200_report

    with pytest.raises(SystemExit):
        h200_report.main([str(tmp_path), str(tmp_path / "out"), str(tmp_path)])
    assert "holds no results of a campaign" in capsys.readouterr().err


def test_without_a_gpu_it_ends_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import h200_campaign

    monkeypatch.setenv("PATH", str(tmp_path))
    assert h200_campaign.main([str(tmp_path), str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.startswith("error: 0 GPUs")
    with pytest.raises(SystemExit):
        h200_campaign.main([str(tmp_path), str(tmp_path / "out"), "--rows", str(tmp_path / "none")])
    assert "is no file" in capsys.readouterr().err


def test_what_a_task_said_has_the_time(tmp_path: Path) -> None:
    import subprocess

    from h200_campaign import stamped

    process = subprocess.Popen([sys.executable, "-c", "print('one'); print('two')"], stdout=subprocess.PIPE)
    stamped(process, tmp_path / "log", time.monotonic())
    process.wait()
    lines = (tmp_path / "log").read_text().splitlines()
    assert [line.split()[1] for line in lines] == ["one", "two"]
    assert all(float(line.split()[0]) >= 0 for line in lines)


def test_what_was_surely_slower_in_the_search_is_no_win(tmp_path: Path) -> None:
    from bundle_sample import FAST, FASTER, WRONG, opening, result, row
    from h200_report import judged

    slow = [row("search", result(c, s)) for c, s in ((FAST, 0.7), (FASTER, 0.8), (WRONG, 0.5))]
    results(tmp_path / "all", (opening(), *slow))
    found = judged(tmp_path / "all", tmp_path)
    assert found is not None
    assert (found["status"], found["candidate"]) == ("no win", FASTER.id)
    results(tmp_path / "part", (opening(), *slow[:2]))
    some = judged(tmp_path / "part", tmp_path)
    assert some is not None
    assert some["status"] == "not confirmed", "the third may yet be faster"


def test_a_confirmation_without_a_baseline_that_worked_before_is_none(tmp_path: Path) -> None:
    from bundle_sample import WHOLE, opening
    from h200_report import judged

    baselines = [b.name for b in opening().baselines]
    *before, last = WHOLE
    ratios = last.result.timing.ratios
    assert {r.baseline for r in ratios} == set(baselines), "the sample is complete"
    timing = last.result.timing.model_copy(update={"ratios": ratios[1:]})
    fewer = last.model_copy(update={"result": last.result.model_copy(update={"timing": timing})})
    results(tmp_path / "fewer", (*before, fewer))
    found = judged(tmp_path / "fewer", tmp_path)
    assert found is not None
    assert found["status"] == "not confirmed"
    assert found["reason"] == f"confirmed without {ratios[0].baseline}"


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        ("OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB", "not confirmed"),
        ("it cannot be captured", "win"),
    ],
)
def test_a_baseline_that_found_no_room_is_missing(tmp_path: Path, reason: str, status: str) -> None:
    """Other runs on the GPU may have taken it; one that the baseline cannot run at all is left out."""
    from bundle_sample import WHOLE, opening
    from h200_report import judged

    from warpsmith.records import BaselineTiming

    lost = BaselineTiming(name="compile", ok=False, median_us=0.0, reason=reason)
    results(tmp_path / "lost", (opening(baselines=(*opening().baselines, lost)), *WHOLE[1:]))
    found = judged(tmp_path / "lost", tmp_path)
    assert found is not None
    assert found["status"] == status


def test_over_eager_counts_what_is_surely_faster_than_eager() -> None:
    from h200_report import _all

    def found(status: str, confirmed: bool, eager: list[float], best: list[float]) -> dict[str, Any]:
        return {"status": status, "confirmed": confirmed, "ratios": {"eager": eager, "compile": best}}

    rows = [
        found("win", True, [3.0, 2.9, 3.1], [2.0, 1.9, 2.1]),
        found("no win", True, [3.0, 2.9, 3.1], [0.9, 0.8, 1.0]),
        found("no win", False, [3.0, 2.9, 3.1], [0.7, 0.6, 0.8]),
        found("no win", True, [1.1, 0.9, 1.3], [0.9, 0.8, 1.0]),
        {"status": "not judged"},
    ]
    assert _all(rows, "eager") == [3.0, 3.0, 1.0, 1.0, 1.0]
    assert _all(rows, "") == [2.0, 1.0, 1.0, 1.0, 1.0]


@pytest.mark.slow
@pytest.mark.parametrize(("task", "called"), [("level2_23", "near_merge"), ("level2_73", "far_merge")])
def test_sources_that_were_kept_still_build(tmp_path: Path, toolkit: None, task: str, called: str) -> None:
    """Their headers have changed since: how blocks merge their states was called otherwise, twice."""
    import tarfile

    from warpsmith.bundles.bundle import read_bundle
    from warpsmith.targets.cuda import CudaTarget

    with tarfile.open(ROOT / "results" / "h200" / "campaign" / f"{task}.tar.gz") as kept:
        kept.extractall(tmp_path, filter="data")
    bundle = read_bundle(next(tmp_path.rglob("manifest.json")).parent)
    (of,) = bundle.tasks.values()
    units = [u for c in bundle.candidates.values() for u in c.units if called in u.source]
    assert units
    build = CudaTarget(tmp_path / "builds", arch="sm_90a").build(units[0], of.main.graph, "main")
    assert build.ok, build.diagnostics


def test_a_plot_has_every_task_once_and_only_what_was_confirmed_off_one(tmp_path: Path) -> None:
    import h200_plot

    ratios = {"eager": [3.0, 2.9, 3.1], "compile": [2.0, 1.9, 2.2]}
    won = {
        "task": "level1/1",
        "machine": "a GPU",
        "status": "win",
        "ratios": ratios,
        "labels": ["kernel"],
        "limit_share": 0.8,
    }
    rows = [
        won, {**won, "task": "level1/2", "status": "no win"}, {**won, "task": "level2/3", "status": "not confirmed"},
        {"task": "level2/4", "machine": "", "status": "wrong"},
    ]  # fmt: skip
    listed = h200_plot.list_bars(rows)
    assert len(listed) == len(rows)
    bars = {(bar.kind, bar.task): bar.ratio.median for bar in listed}
    assert bars == {
        ("kernel", "level1/1"): 2.0,
        ("no win", "level1/2"): 2.0,
        ("no result", "level2/3"): 1.0,
        ("no result", "level2/4"): 1.0,
    }
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert h200_plot.main([str(tmp_path / "rows.jsonl"), "--out", str(tmp_path / "whole.html")]) == 0
    page = (tmp_path / "whole.html").read_text()
    assert "2.00× [1.90, 2.20]" in page
    assert "40%" in page, "the share of the best baseline stands beside the kernel's"
    assert "http" not in page.split("<body", 1)[1]
    (tmp_path / "rows.jsonl").write_text("no rows\n")
    assert h200_plot.main([str(tmp_path / "rows.jsonl"), "--out", str(tmp_path / "page.html")]) == 2
    assert not (tmp_path / "page.html").exists()


def test_what_canaries_took_first_and_last_and_in_campaigns_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import h200_report
    from bundle_sample import WHOLE, opening

    (tmp_path / "kb" / "KernelBench" / "level1").mkdir(parents=True)
    (tmp_path / "kb" / "KernelBench" / "level1" / "1_Task.py").touch()
    monkeypatch.chdir(tmp_path)
    for folder in ("a", "b"):
        (tmp_path / folder / "results").mkdir(parents=True)
    results(Path("a/canaries/20261123T160000-first-level1_95"), WHOLE)
    results(Path("a/canaries/20261123T160000-last-level1_95"), WHOLE)
    results(Path("b/canaries/20261124T160000-first-level1_95"), WHOLE)
    results(Path("b/canaries/20261124T160000-last-level1_95"), (opening(),))  # the time was up
    assert h200_report.main(["kb", "page", "a"]) == 0
    before = Path("page.md").read_text()
    assert h200_report.main(["kb", "page", "b"]) == 0
    page = Path("page.md").read_text()
    line = next(x for x in before.splitlines() if "20261123T160000" in x)
    assert line in page, "that of the campaign before is kept"
    _, campaign, canary, first, last, ratio, eager, again, _ = (c.strip() for c in line.split("|"))
    assert (campaign, canary, ratio) == ("20261123T160000", "level1/95", "1.00")
    assert first == last != ""
    assert eager == again != ""
    other = next(x for x in page.splitlines() if "20261124T160000" in x)
    assert [c.strip() for c in other.split("|")][3:6] == [first, "", ""]
    (tmp_path / "c" / "results").mkdir(parents=True)
    assert h200_report.main(["kb", "none", "c"]) == 0
    assert "Canaries" not in Path("none.md").read_text()

"""What `h200_campaign.py` found, as rows and a page: one row for each of KernelBench's 200 tasks, with the reason where there is no result.

In: folders of campaigns, the later ones first: of a task the first folder that has a confirmation of it counts, else the first that has any
of it, but what another candidate lost later takes no win away and is listed beside it; with `--before ROWS`, an earlier OUT.jsonl, a task whose campaign says less than its row there keeps that row. Out: OUT.jsonl and OUT.md, and what canaries took (`h200_canaries.py`), with
that of campaigns before, in OUT.canaries.jsonl. A win is confirmed in fresh processes, its interval against the fastest of all baselines above 1, and
what it runs passed the sanitizers. A geometric mean is over all tasks; one without a win counts 1, because its user keeps the original.

    python lab/h200_report.py KERNELBENCH OUT CAMPAIGN [CAMPAIGN …] [--before ROWS] [--keep KEPT] [--task level1/40 …] [--dtype bfloat16]

With `--keep` the bundle and the sealed results of each confirmed task are packed there, one file each: sources, environment, every
measurement. KEPT is a CAMPAIGN, too; `warpsmith bundle import` takes an unpacked one.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import tarfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import geometric_mean, median
from tempfile import TemporaryDirectory
from typing import Any

import h200_canaries
from narrow_task import DTYPES

from warpsmith.bundles.bundle import read_bundle
from warpsmith.bundles.journal import ResultRow, TaskRow, read_rows
from warpsmith.bundles.standing import is_surely_slower
from warpsmith.errors import UsageError, WarpsmithError
from warpsmith.records import Candidate, Environment, Ratio, Result
from warpsmith.report.markdown import escape, table
from warpsmith.report.tables import Grid

Row = dict[str, Any]
LEVELS = ("level1", "level2")
BASELINES = (
    "eager",
    "compile",
    "compile-max-autotune",
    "compile-reduce-overhead",
    "cuda-graph",
    "channels-last",
)
ABOUT_CANARIES = "The same two units by hand, judged when a campaign began and when it ended: what else ran beside them, and whether the machine changed."
CONFIRMED = ("win", "no win", "wrong")
# Of a confirmation: the judge lost a process, or a unit is not for other shapes.
NO_VERDICT = ("error", "build-failed")
NEVER = {"status": "not judged", "reason": "no run of it yet"}
THRESHOLDS = (1.0, 1.5, 2.0)
NO_ROOM = "out of memory"  # why a baseline failed that other runs on the GPU took the room of: it is missing, not unable


def names(kernelbench: Path) -> list[tuple[str, str]]:
    """("level1/40", the file's name) of every task, in order."""
    found = []
    for level in LEVELS:
        files = (kernelbench / "KernelBench" / level).glob("*.py")
        found += [(f"{level}/{f.name.partition('_')[0]}", f.name) for f in files]
    return sorted(found, key=lambda pair: (pair[0].split("/")[0], int(pair[0].split("/")[1])))


def row(name: str, file: str, campaigns: Sequence[Path]) -> Row:
    found = [judged(folder / "results" / name.replace("/", "_"), folder) for folder in campaigns]
    return {"task": name, "file": file, **chosen([r for r in found if r is not None])}


def chosen(found: Sequence[Row]) -> Row:
    """Of what campaigns say, the later ones first: the first verdict, else the first at all. A candidate's last verdict is
    the one that counts; a win stays where only other candidates lost later, which go with it as `others`.
    """
    last: dict[str, Row] = {}
    for verdict in found:
        if verdict["status"] in CONFIRMED:
            last.setdefault(verdict["candidate"], verdict)
    if not last:
        return found[0] if found else dict(NEVER)
    verdicts = list(last.values())
    won = next((i for i, verdict in enumerate(verdicts) if verdict["status"] == "win"), 0)
    return verdicts[won] | ({"others": verdicts[:won]} if won else {})


def told(found: Row) -> int:
    """How much a row says: nothing, why there is no result, what a search measured, a verdict."""
    if found["status"] in CONFIRMED:
        return 3
    return 2 if found["status"] == "not confirmed" else 0 if found["reason"] == NEVER["reason"] else 1


def of_both(now: Row, before: Row) -> Row:
    """What says more; the campaigns of what lost beside the same verdict may be gone."""
    if told(before) > told(now):
        return before
    others = {"others": before["others"]} if "others" in before and _same(now, before) else {}
    return now | others


def earlier(rows: Path) -> dict[str, Row]:
    """Rows of an earlier page by task. Raises UsageError."""
    try:
        found = {r["task"]: r for r in map(json.loads, rows.read_text().splitlines())}
        if not all({"file", "status"} <= r.keys() for r in found.values()):
            raise ValueError("a row has no file or no status")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{rows} holds no rows of h200_report.py: {error}") from error
    return found


def judged(folder: Path, campaign: Path) -> Row | None:
    """What a bundle's results say of its only task; None where it was never begun."""
    if not (folder / "results.jsonl").exists():
        packed = campaign / "log" / f"{folder.name}.pack"
        said = packed.read_text().strip().splitlines() if packed.exists() else []
        return (
            {"status": "not judged", "reason": _without_paths(said[0])}
            if said and "error:" in said[-1]
            else None
        )
    bundle = read_bundle(folder / "bundle")
    rows = read_rows(folder, bundle.root)
    (task,) = bundle.tasks.values()
    opened = [r for r in rows if isinstance(r, TaskRow)]
    made: Row = {"overrides": dict(task.main.overrides)}
    good = [r for r in opened if r.status == "opened"]
    if good:
        made |= {
            "at": good[-1].at, "environment": good[-1].environment.id, "machine": _machine(good[-1].environment),
            "limit_us": good[-1].limit.seconds * 1e6 if good[-1].limit else None,
            "bound": good[-1].limit.bound if good[-1].limit else None,
            "baselines": {b.name: round(b.median_us, 1) for b in good[-1].baselines if b.ok},
        }  # fmt: skip
    results = [r for r in rows if isinstance(r, ResultRow)]
    rivals = {b.name for row in good for b in row.baselines if b.ok or NO_ROOM in b.reason}
    ended = [r.result for r in results if r.phase == "confirmation"]
    last = [r for r in ended if r.status not in NO_VERDICT]
    confirmed = [r for r in last if rivals <= _timed_against(r) or r.status != "ok"]
    searched = [r.result for r in results if r.phase == "search"]
    if confirmed:
        right = [r for r in confirmed if r.status == "ok"]
        best = max(right or confirmed, key=_speed)
        status = "wrong" if not right else "win" if best.win else "no win"
        return (
            made
            | {"status": status, "reason": best.reason}
            | _measured(best, bundle.candidates[best.candidate_id])
        )
    if not good:
        reason = opened[-1].reason if opened else "its time ran out before it was opened"
        return made | {"status": "not judged", "reason": reason.split(". ")[0][:200]}
    right = [r for r in searched if r.status == "ok"]
    if right:
        best = max(right, key=_speed)
        if len({r.candidate_id for r in searched}) == len(bundle.candidates) and is_surely_slower(best):
            measured = _measured(best, bundle.candidates[best.candidate_id])
            return made | {"status": "no win", "reason": ""} | measured
        made |= {"unconfirmed": _measured(best, bundle.candidates[best.candidate_id])}
        absent = sorted(rivals - _timed_against(last[-1])) if last else []
        why = ended[-1].reason if ended else "its time ran out before a confirmation"
        reason = f"confirmed without {', '.join(absent)}" if absent else why.split(". ")[0][:200]
        return made | {"status": "not confirmed", "reason": reason}
    reason = searched[-1].reason if searched else "its time ran out before a candidate was judged"
    return made | {"status": "not judged", "reason": reason.split(". ")[0][:200]}


def _timed_against(result: Result) -> set[str]:
    """Names of baselines."""
    return {r.baseline for r in result.timing.ratios} if result.timing else set()


def _measured(result: Result, candidate: Candidate) -> Row:
    timing, verdict = result.timing, result.verdict
    made: Row = {"candidate": candidate.id, "techniques": [u.technique for u in candidate.units]}
    if timing is None:
        return made
    return made | {
        "us": round(timing.median_us, 2),
        "ratios": {r.baseline: [round(v, 3) for v in (r.median, r.low, r.high)] for r in timing.ratios},
        "limit_share": round(timing.limit_share, 4), "labels": list(verdict.labels) if verdict else [],
        "isolation": verdict.isolation if verdict else "", "seed": result.seed, "confirmed": timing.confirmed,
    }  # fmt: skip


def _speed(result: Result) -> float:
    return result.speedup.median if result.speedup is not None else 0.0


def _machine(environment: Environment) -> str:
    e = environment
    return f"{e.device}, driver {e.gpu_driver}, torch {e.torch}, Python {e.python}, {e.cpu}"


def _without_paths(text: str) -> str:
    return " ".join(Path(word).name if word.startswith("/") else word for word in text.split())[:200]


def best_of(found: Row) -> Ratio | None:
    """Against the fastest baseline of a confirmed row."""
    ratios = [
        Ratio(baseline=n, median=m, low=low, high=high)
        for n, (m, low, high) in found.get("ratios", {}).items()
    ]
    return min(ratios, key=lambda r: r.median, default=None)


def page(rows: Sequence[Row], command: str, canaries: Sequence[Row] = (), dtype: str = "") -> str:
    machines = Counter(r["machine"] for r in rows if "machine" in r)
    parts = [
        f"# KernelBench {f'in {dtype}' if dtype else 'levels 1 and 2'} on an H200, judged",
        f"Command: `{command}`. Machine: {'; '.join(machines) or 'none yet'}.",
        "Judged by Warpsmith's own judge (docs/how-to/judge.md): correct on every input family at three shapes, timed beside all baselines in "
        "interleaved rounds, confirmed in fresh processes, winners under compute-sanitizer. Ratios are medians with 95% intervals against the "
        "fastest baseline (eager, `torch.compile` default, max-autotune and reduce-overhead, a CUDA graph, channels-last where there are "
        "images). What was surely slower in the search was not measured again. Shapes are KernelBench's own unless a constant is named, most often a smaller batch, which takes less memory and time to judge. Only *win* counts; *not confirmed* is a search's measurement, "
        "of which nothing is claimed. Over eager counts whatever was confirmed right and surely faster than eager, a win over the best "
        "baseline or none (these were not run under compute-sanitizer).",
        *(
            f"## {level}\n\n{table(_totals(mine))}"
            for level in LEVELS
            if (mine := [r for r in rows if r["task"].startswith(level)])
        ),
        *(["## Canaries", ABOUT_CANARIES, table(h200_canaries.drift(canaries))] if canaries else []),
        "## Every task",
        table(_tasks(rows)),
        *_others(rows),
        "## Without a win, and why",
        "\n".join(
            f"- {r['task']}: {r['status']}: {escape(r.get('reason') or _lost(r))}"
            for r in rows
            if r["status"] != "win"
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _others(rows: Sequence[Row]) -> list[str]:
    """What other candidates than those shown lost later."""
    lines = [
        f"- {r['task']}: {' + '.join(other['techniques'])}: {other['status']}: {escape(other['reason'] or _lost(other))}"
        for r in rows
        for other in r.get("others", ())
    ]
    return ["## Other candidates, judged later", "\n".join(lines)] if lines else []


def _lost(found: Row) -> str:
    ratio = best_of(found)
    return f"{ratio.median:.2f} times as fast as {ratio.baseline}" if ratio is not None else ""


def _totals(rows: Sequence[Row]) -> Grid:
    counts = Counter(r["status"] for r in rows)
    wins = [r for r in rows if r["status"] == "win"]
    lines: list[tuple[str, ...]] = [("tasks", str(len(rows)))]
    lines += [(status, str(count)) for status, count in counts.most_common()]
    for label in ("kernel", "algorithmic", "library"):
        lines.append((f"wins: {label}", str(sum(label in r["labels"] for r in wins))))
    lines.append(("wins at KernelBench's own sizes", str(sum(not r.get("overrides") for r in wins))))
    for name, ratios in (("best baseline", _all(rows, "")), ("eager", _all(rows, "eager"))):
        lines.append((f"geometric mean over all, {name}", f"{geometric_mean(ratios):.2f}"))
        lines.append((f"median over all, {name}", f"{median(ratios):.2f}"))
        lines += [
            (f"fast_{p:g}, {name}", f"{sum(r > p for r in ratios) / len(ratios):.2f}") for p in THRESHOLDS
        ]
    for name, bounds in (("wins", ("memory", "compute")), ("wins bound by memory", ("memory",))):
        shares = [r["limit_share"] for r in wins if r["bound"] in bounds]
        lines.append((f"median share of the limit, {name}", f"{median(shares):.0%}" if shares else "-"))
    return Grid("", ("", "value"), tuple(lines), frozenset({1}))


def _all(rows: Sequence[Row], baseline: str) -> list[float]:
    """A ratio for every task, 1 where its user keeps the original: without a win; over one baseline, unless a confirmed
    candidate is surely faster than that, whatever the others are.
    """
    made = []
    for found in rows:
        best = best_of(found) if found["status"] == "win" else None
        named = found["ratios"].get(baseline) if found.get("confirmed") else None
        faster = named[0] if named and named[1] > 1 else 1.0
        made.append(faster if named else best.median if best else 1.0)
    return made


def _tasks(rows: Sequence[Row]) -> Grid:
    head = (
        "task",
        "status",
        "µs",
        "best baseline",
        "over it",
        "eager",
        "compile",
        "max-autotune",
        "graph",
        "limit",
        "label",
        "techniques",
    )
    return Grid("", head, tuple(_cells(r) for r in rows), frozenset(range(2, 10)))


def _cells(found: Row) -> tuple[str, ...]:
    shown = found.get("unconfirmed", found)
    ratio, ratios = best_of(shown), shown.get("ratios", {})
    reduced = ", ".join(f"{k} = {v}" for k, v in found.get("overrides", {}).items())
    name = found["task"] + (f" ({reduced})" if reduced else "")
    if ratio is None:
        return (name, found["status"], *[""] * 10)
    each = (
        f"{ratios[n][0]:.2f}" if n in ratios else ""
        for n in ("eager", "compile", "compile-max-autotune", "cuda-graph")
    )
    return (
        name, found["status"], f"{shown['us']:.0f}", ratio.baseline, f"{ratio.median:.2f} ({ratio.low:.2f}–{ratio.high:.2f})",
        *each, f"{shown['limit_share']:.0%}", shown["labels"][0] if shown["labels"] else "", " + ".join(shown["techniques"]),
    )  # fmt: skip


def collected(kernelbench: Path, campaigns: Sequence[Path]) -> Iterator[Row]:
    for name, file in names(kernelbench):
        try:
            yield row(name, file, campaigns)
        except WarpsmithError as error:
            yield {
                "task": name,
                "file": file,
                "status": "not judged",
                "reason": f"its results cannot be read: {error}",
            }


@contextmanager
def opened(campaigns: Sequence[Path]) -> Iterator[list[Path]]:
    """Folders of campaigns; those that hold packed results are unpacked for as long as the block runs."""
    with ExitStack() as stack:
        found = []
        for folder in campaigns:
            if packed := sorted(folder.glob("level*.tar.gz")):
                folder = Path(stack.enter_context(TemporaryDirectory()))
                for file in packed:
                    with tarfile.open(file) as archive:
                        archive.extractall(folder / "results", filter="data")
            found.append(folder)
        yield found


def keep(rows: Sequence[Row], campaigns: Sequence[Path], kept: Path) -> None:
    """Pack what is behind each confirmed row; the same bytes for the same content."""
    kept.mkdir(parents=True, exist_ok=True)
    for found in rows:
        of_it = (c for c in campaigns if _same(row(found["task"], found["file"], [c]), found))
        if found["status"] not in CONFIRMED or (campaign := next(of_it, None)) is None:
            continue  # an earlier row may have no campaign any more
        name = found["task"].replace("/", "_")
        folder = campaign / "results" / name
        with (
            gzip.GzipFile(kept / f"{name}.tar.gz", "wb", mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w") as archive,
        ):
            for file in sorted(f for f in folder.rglob("*") if f.is_file()):
                about = tarfile.TarInfo(f"{name}/{file.relative_to(folder)}")
                about.size = file.stat().st_size
                with file.open("rb") as content:
                    archive.addfile(about, content)


def _same(one: Row, other: Row) -> bool:
    """Are both the same verdict?"""
    return all(one.get(field) == other.get(field) for field in ("status", "candidate", "at", "us"))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kernelbench", type=Path, help="a checkout of KernelBench")
    parser.add_argument("out", type=Path, help="without a suffix")
    parser.add_argument(
        "campaigns", type=Path, nargs="+", help="folders that h200_campaign.py wrote, the later ones first"
    )
    parser.add_argument("--task", action="append", default=[], help="level1/40; repeatable; default: all 200")
    parser.add_argument(
        "--before", type=Path, help="an earlier OUT.jsonl: rows to keep where campaigns say less"
    )
    parser.add_argument("--dtype", choices=DTYPES, default="", help="that the tasks were converted to")
    parser.add_argument("--keep", type=Path, help="a folder for the bundles and results of confirmed tasks")
    given = parser.parse_args(arguments)
    try:
        before = earlier(given.before) if given.before else {}
    except UsageError as error:
        parser.error(str(error))
    with opened(given.campaigns) as campaigns:
        missing = [c for c, o in zip(given.campaigns, campaigns, strict=True) if not (o / "results").is_dir()]
        if missing:
            parser.error(f"{missing[0]} holds no results of a campaign")
        now = (
            r for r in collected(given.kernelbench, campaigns) if not given.task or r["task"] in given.task
        )
        rows = [of_both(r, before.get(r["task"], r)) for r in now]
        canaries = h200_canaries.judged(campaigns)
        if not rows:
            parser.error(f"{given.kernelbench} holds no tasks: give a checkout of KernelBench")
        if given.keep is not None:
            keep(rows, campaigns, given.keep)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.with_suffix(".jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    command = (
        f"python lab/h200_report.py KERNELBENCH {given.out} CAMPAIGN{' --before ROWS' * bool(before)}"
        f"{f' --dtype {given.dtype}' if given.dtype else ''}"
    )
    canaries = h200_canaries.kept(given.out.with_suffix(".canaries.jsonl"), canaries)
    given.out.with_suffix(".md").write_text(page(rows, command, canaries, given.dtype))
    wins = [r for r in rows if r["status"] == "win"]
    mean = math.exp(sum(math.log(best.median) for r in wins if (best := best_of(r))) / len(rows))
    print(
        f"{len(wins)} wins of {len(rows)}, geometric mean over all {mean:.2f}: wrote {given.out}.jsonl and .md"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

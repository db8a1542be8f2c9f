"""Whether a refactoring of the kernels changed anything on a GPU: recorded winners as an old checkout and as this one write them.

    python lab/winners_before_after.py choose FOLDER --offers ROWS [--also level1/1 …]
    python lab/winners_before_after.py emit FOLDER CHECKOUT before|after
    python lab/winners_before_after.py build FOLDER --before CHECKOUT --after CHECKOUT
    python lab/winners_before_after.py time FOLDER --out ROWS.jsonl --seconds 460        # on the GPU; FOLDER is all it needs
    python lab/winners_before_after.py table FOLDER --out ROWS.jsonl --page results/h100/winners_before_after.md

`choose`: the fewest tasks of the campaign in `results/h200` that hold every technique that won there, and one for each that is offered
only; `ROWS` come from `benchmarks/emitted_units.py record` in the old checkout. With `--file TASK.py --kind FAMILY/TECHNIQUE` any task.
`emit`: their units at the recorded shapes and values, by the checkout's own expert (`winners_checkout.py`); first `before`, then `after`,
which finds its units by those. `build`: each by its checkout's compile step; says of which pairs the machine code is the same.
`time`: both are verified as a candidate is and timed in one run of interleaved rounds (`winners_judge.py`), an item a process, the smallest
first; the same command goes on. `table`: the page.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import benchmarks_on_path  # noqa: F401 - for the imports that follow
from item_processes import Items, Row, add_run_options, follow_parent, pass_on, seconds_left, write_row
from json_lines import known_rows
from lanes import divide
from machine_code import hash_library
from pages import list_table, write_page
from winners_chosen import choose, choose_files, write_winners
from winners_judge import CarriedTarget, PairSession, Version

from warpsmith import machine
from warpsmith.errors import WarpsmithError
from warpsmith.processes.buffers import Scratch
from warpsmith.records import Candidate, Task, Unit
from warpsmith.records.record import content_hash

HERE = Path(__file__).resolve()
VERSIONS = ("before", "after")
SEED = 20261125
IN_ATEN = "in ATen"  # what `winners_checkout.py` says of a unit that the library runs
COMMAND = "python lab/winners_before_after.py time FOLDER --out ROWS.jsonl --seconds 460 --jobs 2"


def read_winners(folder: Path) -> dict[str, Row]:
    return {row["name"]: row for row in json.loads((folder / "winners.json").read_text())}


def read_version(folder: Path, version: str, winner: Row) -> Row:
    file = folder / version / winner["file"]
    row: Row = json.loads(file.read_text()) if file.exists() else {"parts": [], "notes": ["not emitted"]}
    return row


def run_choose(options: argparse.Namespace) -> int:
    if options.file:
        winners = choose_files(options.file, options.kind, options.target)
    else:
        winners, gone = choose(options.results, options.offers, options.also)
        print(f"won and not offered any more: {', '.join('/'.join(kind) for kind in gone) or 'nothing'}")
    write_winners(options.folder, winners)
    for winner in winners:
        labels = " + ".join(f"{p.family}/{p.technique}" for p in winner.parts)
        origin = "a recorded winner" if winner.recorded else "no winner is recorded: offered"
        print(f"{winner.name}: {labels}; {origin}; {winner.task.graph.least_bytes / 1e9:.2f} GB")
    return 0


def call_checkout(checkout: Path, *arguments: str) -> int:
    """`winners_checkout.py` with that checkout's package and instruments."""
    checkout = checkout.resolve()
    if not (checkout / "src" / "warpsmith").is_dir():
        raise SystemExit(f"error: {checkout} is no checkout")
    path = os.pathsep.join([str(checkout / "src"), str(checkout / "benchmarks")])
    command = [sys.executable, str(HERE.with_name("winners_checkout.py")), *arguments]
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=False).returncode


def run_emit(options: argparse.Namespace) -> int:
    like = ["--like", str(options.folder / "before")] if options.version == "after" else []
    out = options.folder / options.version
    return call_checkout(options.checkout, "emit", str(options.folder), str(out), *like)


def run_build(options: argparse.Namespace) -> int:
    for version in VERSIONS:
        out = str(options.folder / version)
        code = call_checkout(
            getattr(options, version), "build", str(options.folder), out, f"--jobs={options.jobs}"
        )
        if code:
            return code
    rows = [compare_code(options.folder, winner) for winner in read_winners(options.folder).values()]
    (options.folder / "code.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for row in rows:
        print(f"{row['name']}: {row['code']}{'; text differs' * (not row['same_text'])}")
    return int(any(row["code"] != "same" for row in rows))


def compare_code(folder: Path, winner: Row) -> Row:
    """Whether texts and machine code of all units of a winner are the same: "same", "differs", or what failed."""
    pairs = [read_version(folder, version, winner)["parts"] for version in VERSIONS]
    row: Row = {"name": winner["name"], "units": len(pairs[0])}
    if not all(pairs):
        return {**row, "same_text": False, "code": "not emitted"}
    row["same_text"] = all(b["unit"]["source"] == a["unit"]["source"] for b, a in zip(*pairs, strict=True))
    failed = [p["failed"] for parts in pairs for p in parts if p["failed"] not in ("", IN_ATEN)]
    if failed:
        return {**row, "code": f"does not build: {failed[0]}"}
    hashes = [
        [hash_part(folder / v, part) for part in parts] for v, parts in zip(VERSIONS, pairs, strict=True)
    ]
    return {**row, "code": "same" if hashes[0] == hashes[1] else "differs", "hashes": hashes}


def hash_part(folder: Path, part: Row) -> str:
    """Of machine code; of a unit in ATen its operations."""
    if not part["library"]:
        return f"{IN_ATEN} {content_hash(part['unit'].get('rewrite'))}"
    return hash_library(folder / "libraries" / f"{part['library']}.so", part["unit"]["language"])


def run_time(options: argparse.Namespace) -> int:
    if options.row:
        follow_parent(options)
        write_row(options, time_winner(options))
        return 0
    names = [n for n in list_smallest_first(options.folder) if not options.only or n in options.only]
    everything = [set(machine.affinity())] * options.jobs  # beside a GPU all items share the processors
    lanes = everything if options.cores is None else divide(options.jobs, options.cores)
    passed = ["time", str(options.folder), *pass_on(options, "seed", "cache")]
    # The file that locks the GPU lies in TMPDIR, so all items have the same.
    items = Items(
        str(HERE), passed, options.limit_s, lanes, seconds_left(options), environment=lambda folder: dict(os.environ)
    )  # fmt: skip
    rows = items.run_rest(names, options.out, options.retry)
    good = sum(row["status"] == "ok" for row in rows)
    print(f"{len(rows)} of {len(names)} items, {good} right and timed", flush=True)
    return int(good < len(names))


def list_smallest_first(folder: Path) -> list[str]:
    sizes = {name: read_task(folder, w).graph.least_bytes for name, w in read_winners(folder).items()}
    return sorted(sizes, key=lambda name: (sizes[name], name))


def read_task(folder: Path, winner: Row) -> Task:
    return Task.model_validate_json((folder / "tasks" / winner["file"]).read_text())


def time_winner(options: argparse.Namespace) -> Row:
    """The row of one item, in its own process."""
    winner = read_winners(options.folder)[options.item]
    here = machine.describe(device="cuda" if winner["target"] == "cuda" else "cpu")
    row: Row = {
        "reason": "", "device": here.device, "driver": here.gpu_driver, "cpu": here.cpu, "torch": here.torch, "python": here.python,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }  # fmt: skip
    versions = [read_version(options.folder, version, winner) for version in VERSIONS]
    if not all(v["parts"] for v in versions):
        return {**row, "status": "error", "reason": "; ".join(n for v in versions for n in v["notes"])}
    try:
        with Scratch() as scratch:
            before, after = (
                make_version(options, name, read) for name, read in zip(VERSIONS, versions, strict=True)
            )
            seed = options.seed + zlib.crc32(options.item.encode())
            session = PairSession(
                read_task(options.folder, winner), after.target, scratch=scratch, workdir=scratch.new("run"), seed=seed,
                progress=partial(print, flush=True), baselines=(), peaks_cache=options.cache, profile=False,
            )  # fmt: skip
            with session:
                session.open()
                return {**row, **session.compare(before, after, lambda r: write_row(options, {**row, **r}))}
    except WarpsmithError as error:
        return {**row, "status": "error", "reason": f"{type(error).__name__}: {error}"}


def make_version(options: argparse.Namespace, name: str, read: Row) -> Version:
    """The candidate and its carried libraries. Libraries go by the units as today's records read them."""
    units = [Unit.model_validate(part["unit"]) for part in read["parts"]]
    folder = options.folder / name / "libraries"
    libraries = {
        unit.code_key: folder / f"{part['library']}.so"
        for unit, part in zip(units, read["parts"], strict=True)
        if part.get("library")
    }
    language = next((u.language for u in units if u.compiled), "cuda")
    target = CarriedTarget(libraries, options.cache, language)
    task_id = read_task(options.folder, read_winners(options.folder)[options.item]).id
    candidate = Candidate(task_id=task_id, target=target.name, units=tuple(units))
    return Version(name, candidate, target)


def run_table(options: argparse.Namespace) -> int:
    winners, rows = read_winners(options.folder), known_rows(options.out, "item")
    code = known_rows(options.folder / "code.jsonl", "name")
    notes = {
        name: [
            note for version in VERSIONS for note in read_version(options.folder, version, winner)["notes"]
        ]
        for name, winner in winners.items()
    }
    write_page(options.page, write_text(winners, rows, code, notes, options.command))
    return 0


def write_text(
    winners: Mapping[str, Row], rows: Mapping[str, Row], code: Mapping[str, Row], notes: Mapping[str, list[str]], command: str
) -> str:  # fmt: skip
    timed = [row for row in rows.values() if "ratio" in row]
    right = [row for row in rows.values() if is_right(row)]
    same = [row for row in code.values() if row["code"] == "same"]
    about = rows[next(iter(rows))] if rows else {}
    lines = [
        "# Recorded winners before and after the refactoring of the kernels", "",
        f"{str(about.get('at', ''))[:10]}, {about.get('device') or about.get('cpu', 'not run')}, driver {about.get('driver') or 'none'}, "
        f"torch {about.get('torch', '')}, Python {about.get('python', '')}:", "", f"`{command}`", "",
        "Units as the old checkout and as this one write them, at the recorded shapes and values; both judged as a candidate is at the main "
        "shapes, then timed against each other in interleaved rounds. A ratio above 1: the later one is faster. Its interval is a bootstrap's, "
        "widened by what two processes with the same code differ.", "",
        f"**{len(same)} of {len(winners)} have the same machine code, {len(right)} are right on all inputs before and after, "
        f"{len(losses(timed))} of {len(timed)} timed are slower.** {describe_losses(timed)}", "",
        *list_table(TITLES, (cells(winners[n], rows.get(n, {}), code.get(n, {})) for n in winners)), "",
        *(f"- {name}: {'; '.join(dict.fromkeys(said))}." for name, said in notes.items() if said),
        *(f"- {row['item']}: {row['status']}: {row['reason']}" for row in rows.values() if row["status"] != "ok"),
    ]  # fmt: skip
    return "\n".join(lines).rstrip() + "\n"


TITLES = (
    "task",
    "units",
    "recorded",
    "SASS same",
    "right on all inputs",
    "checks",
    "before µs",
    "after µs",
    "ratio low",
    "median",
    "high",
)


def cells(winner: Row, row: Row, code: Row) -> list[str]:
    units = " + ".join(f"{p['family']}/{p['technique']}" for p in winner["parts"])
    median, low, high = (f"{value:.3f}" for value in row["ratio"]) if "ratio" in row else ("-",) * 3
    times = [f"{row[k]:.1f}" if k in row else "-" for k in ("before_us", "after_us")]
    judged = "yes" if is_right(row) else "no" if row.get("status") == "incorrect" else "not judged"
    same = {"same": "yes", "differs": "no"}.get(code.get("code", ""), code.get("code", "-"))
    if all(text.startswith(IN_ATEN) for text in code.get("hashes", [[]])[0]):
        same = {"yes": "no code, same operations", "no": "no code, other operations"}.get(same, same)
    checks = sum(row.get(v, {}).get(k, 0) for v in VERSIONS for k in ("checks", "timed_checks"))
    recorded = "yes" if winner["recorded"] else "offered only"
    return [winner["name"], units, recorded, same, judged, str(checks), *times, low, median, high]


def is_right(row: Row) -> bool:
    return all(row.get(version, {}).get("right", False) for version in VERSIONS)


def losses(timed: Sequence[Row]) -> list[Row]:
    """Items whose whole interval lies below 1."""
    return [row for row in timed if row["ratio"][2] < 1.0]


def describe_losses(timed: Sequence[Row]) -> str:
    said = [f"{row['item']} takes {1 / row['ratio'][0]:.3f} times as long" for row in losses(timed)]
    return f"Losses: {', '.join(said)}." if said else "No interval lies below 1."


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(required=True)
    one = {name: verbs.add_parser(name) for name in ("choose", "emit", "build", "time", "table")}
    for verb in one.values():
        verb.add_argument("folder", type=Path)
    add_choose_options(one["choose"])
    one["emit"].add_argument("checkout", type=Path)
    one["emit"].add_argument("version", choices=VERSIONS)
    for version in VERSIONS:
        one["build"].add_argument(f"--{version}", type=Path, required=True, help="a checkout")
    one["build"].add_argument("--jobs", type=int, default=1)
    add_run_options(one["time"], Path("winners.jsonl"), limit_s=120.0)
    one["time"].add_argument("--only", nargs="+", help="items by name")
    one["time"].add_argument("--seed", type=int, default=SEED)
    one["time"].add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "winners-cache")
    one["table"].add_argument("--out", type=Path, required=True, help="rows of `time`")
    one["table"].add_argument("--page", type=Path, default=Path("results/h100/winners_before_after.md"))
    one["table"].add_argument("--command", default=COMMAND, help="as it was run, for the page")
    runs = {"choose": run_choose, "emit": run_emit, "build": run_build, "time": run_time, "table": run_table}
    for name, run in runs.items():
        one[name].set_defaults(run=run)
    return parser.parse_args()


def add_choose_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--results", type=Path, default=HERE.parent.parent / "results" / "h200")
    parser.add_argument("--offers", type=Path, help="rows of emitted_units.py record")
    parser.add_argument("--also", nargs="+", default=[], help="winners on these tasks, too: level1/1")
    parser.add_argument(
        "--file", nargs="+", type=Path, default=[], help="task files, in place of the campaign's"
    )
    parser.add_argument("--kind", nargs="+", default=[], help="FAMILY/TECHNIQUE of each file")
    parser.add_argument("--target", choices=("cuda", "cpu"), default="cuda", help="of those files' units")


if __name__ == "__main__":
    parsed = parse_arguments()
    sys.exit(parsed.run(parsed))

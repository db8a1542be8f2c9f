"""Solutions that others published, with the speedups they claim, through this project's judge.

    python lab/third_party.py h100.json --device cuda --level 1 2 3 --out results/h200/third_party.jsonl
    python lab/third_party.py h100.json --device cpu --level 1 --count 20 --out results/cpu/third_party.jsonl

`h100.json` is a file of the release of CUDA-L1 (Li et al. 2025, arXiv:2507.14111; github.com/deepreinforce-ai/CUDA-L1,
`optimized_cuda_code/`): a JSON object a line, {level_id, task_id, ref_code, custom_code, score_default}, a `Model` and a `ModelNew` each
with the claimed speedup over eager. Nothing of it is part of this project.

Several GPUs share the work, a process each, which keep to the same list; `third_party_report.py` reads all their lines:

    for i in 1 2 3 4; do CUDA_VISIBLE_DEVICES=$((i-1)) python lab/third_party.py h100.json --share $i/4 --out share$i.jsonl & done; wait

Those whose source has a kernel come first, each kind spread over the file, so that a run that is cut short has seen some of
everything. Each solution is judged in a process of its own, which is killed with all it started after `--timeout`;
what goes wrong there is a line with the reason. Lines that are there already are kept, and not judged again.

On CUDA the shapes are the task's own; on the CPU they are reduced (`shrunk_task.py`), speedups say nothing of the
claims, which were made for a GPU, and solutions that need one are skipped: only verdicts and labels are of interest.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import benchmarks_on_path  # noqa: F401
from alone import Alone, thaw
from json_lines import append_line, known_lines
from lanes import run_limited
from shrunk_task import Bounds, shrunk_task
from third_party_release import Entry, chosen, claims, name_of, share, totals

from warpsmith import plugins
from warpsmith.config import Config
from warpsmith.errors import WarpsmithError
from warpsmith.machine import describe
from warpsmith.processes.buffers import Scratch
from warpsmith.processes.worker import die_with_parent
from warpsmith.records import Task
from warpsmith.solutions.classify import classify, list_own_code
from warpsmith.solutions.judge import judge_solution
from warpsmith.solutions.verdict import SolutionVerdict
from warpsmith.targets.target import Target
from warpsmith.tasks.load import load_task

Line = dict[str, Any]
LONGEST = 300  # characters of a reason


def one(entry: Entry, options: argparse.Namespace, limit: float) -> Line | None:
    """The outcome of one entry, found by a process of its own; None where less than `--timeout` was left."""
    with tempfile.TemporaryDirectory(prefix="warpsmith-third-party-") as folder:
        file, found, log = (Path(folder, name) for name in ("entry.json", "line.json", "log.txt"))
        file.write_text(json.dumps(entry))
        command = [sys.executable, __file__, str(file), "--line", str(found), "--out", str(options.out)]
        command += ["--device", options.device, "--seed", str(options.seed), "--lock", str(options.lock)]
        command += ["--untimed"] if options.untimed else []
        ended = run_limited(command, limit_s=limit, log=log)
        if ended.code == 0:
            line: Line = json.loads(found.read_text())
            return line
        thaw(options.lock)  # it may have been measuring
    if ended.code is not None:
        reason = f"its process ended with code {ended.code}: {last_line(ended.log)}"
    elif limit < options.timeout:
        return None
    else:
        reason = f"not done in {limit:g} s ({last_line(ended.log)})"
    return {"verdict": "not judged", "reason": reason}


def last_line(log: list[str]) -> str:
    """What a process said last: the stage that it was in, or the error that ended it."""
    lines = [text.strip() for text in log if text.strip()]
    return lines[-1][:LONGEST] if lines else "no word of it"


def write_line(options: argparse.Namespace) -> None:
    """In the process of one entry: judge it and write what became of it."""
    die_with_parent(os.getppid())
    alone = Alone(options.lock)

    def told(stage: str) -> None:
        print(stage, flush=True)
        alone.told(stage)

    entry, config, start = json.loads(options.release.read_text()), Config.load(), time.monotonic()
    stem, folder = f"level{entry['level_id']}_{entry['task_id']}", options.release.parent
    task_file, solution = folder / f"{stem}.py", folder / f"{stem}_solution.py"
    task_file.write_text(entry["ref_code"])
    solution.write_text(entry["custom_code"])
    try:
        target: Target = plugins.load("targets", options.device)(
            config.cache, config.compiler, config.threads
        )
        with Scratch() as scratch:
            task = task_of(task_file, options.device, scratch, config.load_timeout)
            seconds = {"load": round(time.monotonic() - start, 3)}
            verdict = judge_solution(
                solution, task, target, scratch=scratch, cache=config.cache, seed=options.seed,
                baselines=config.baselines if options.device == "cpu" else ("eager", "compile"),
                progress=told, timed=not options.untimed,
            )  # fmt: skip
        line = outcome(verdict, options.device, seconds)
    except WarpsmithError as error:
        reason = str(error).replace(f"{folder}/", "")
        line = {"verdict": "not judged", "reason": reason[:LONGEST]}
    finally:
        alone.told("done")
    options.line.write_text(json.dumps(line))


def task_of(file: Path, device: str, scratch: Scratch, timeout: float) -> Task:
    if device == "cpu":
        return shrunk_task(str(file), Bounds(), scratch=scratch, timeout=timeout)
    return load_task(str(file), scratch=scratch, timeout=timeout)


def outcome(verdict: SolutionVerdict, device: str, seconds: dict[str, float]) -> Line:
    trace, timing = verdict.trace, verdict.timing
    label, why = classify(trace, device) if trace else ("", "")
    return {
        "verdict": verdict.verdict, "label": verdict.label if trace else "", "labels": verdict.labels,
        "label_reason": why if label in ("", verdict.label) else verdict.reasons[-1],
        "own": list_own_code(trace, device)[:8] if trace else [], "parameters": verdict.parameters,
        "rule": verdict.rule, "reason": "; ".join(verdict.reasons), "isolation": verdict.isolation,
        "speedup": {name: [r.median, r.low, r.high] for name, r in verdict.speedup.items()},
        "baselines": [r.baseline for r in timing.ratios] if timing else [],
        "best": timing.best.baseline if timing and timing.best else "",
        "median_us": timing.median_us if timing else None, "limit_share": timing.limit_share if timing else None,
        "stages": {**seconds, **verdict.seconds},
    }  # fmt: skip


def main() -> None:
    options, started = arguments(), time.monotonic()
    if options.line:
        write_line(options)
        return
    options.out.parent.mkdir(parents=True, exist_ok=True)
    lines = known_lines(options.out)
    release = [json.loads(text) for text in options.release.read_text().splitlines()]
    entries = chosen(release, options)
    machine = describe(Config.load().compiler, options.device)
    ran = {
        "device": options.device, "hardware": machine.device, "driver": machine.gpu_driver, "torch": machine.torch,
        "cpu": machine.cpu, "release": options.release.name, "totals": totals(release), "seed": options.seed, "lanes": options.lanes,
    }  # fmt: skip
    known = {line["task"] for line in lines}

    def work(entry: Entry) -> None:
        begin = time.monotonic()
        left = options.seconds - (begin - started)
        found = one(entry, options, min(options.timeout, left)) if left > 0 else None
        if found is None:
            return
        line = {**claims(entry), **ran, **found, "seconds": round(time.monotonic() - begin, 1)}
        lines.append(line)
        append_line(options.out, line)
        print(f"{name_of(entry)}: {found['verdict']} {found['reason'][:100]}", flush=True)

    with tempfile.NamedTemporaryFile() as lock, ThreadPoolExecutor(options.lanes) as pool:
        options.lock = Path(lock.name)
        list(pool.map(work, [e for e in entries if name_of(e) not in known]))
    print(dict(Counter(line["verdict"] for line in lines)))


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("release", type=Path)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--level", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--tasks", nargs="+", help="such as 1/12 2/40; all by default")
    parser.add_argument("--count", type=int, help="so many, spread over the file")
    parser.add_argument(
        "--share", type=share, default=(1, 1), help="I/N: every N-th of them, from the I-th on"
    )
    parser.add_argument(
        "--lanes", type=int, default=1, help="so many at a time; while one measures, the others stand still"
    )
    parser.add_argument(
        "--untimed", action="store_true", help="only whether they are right, and their labels"
    )
    parser.add_argument("--timeout", type=float, default=240.0, help="seconds for one solution")
    parser.add_argument(
        "--seconds", type=float, default=1e9, help="end after this time; one under way is dropped"
    )
    parser.add_argument("--seed", type=int, default=20261)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--line", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--lock", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args(given)


if __name__ == "__main__":
    main()

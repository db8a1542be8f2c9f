"""Solutions that others published, with the speedups they claim, through this project's judge.

    python benchmarks/third_party.py h100.json --device cuda --count 60 --out results/h200/third_party.jsonl
    python benchmarks/third_party.py h100.json --device cpu --level 1 --out results/cpu/third_party.jsonl

`h100.json` is a file of the release of CUDA-L1 (Li et al. 2025, arXiv:2507.14111; github.com/deepreinforce-ai/CUDA-L1,
`optimized_cuda_code/`): a JSON object a line, {level_id, task_id, ref_code, custom_code, score_default}, a `Model` and a `ModelNew` each
with the claimed speedup over eager. Nothing of it is part of this project.

On CUDA the shapes are the task's own; on the CPU they are reduced (`shrunk_task.py`), speedups say nothing of the
claims, which were made for a GPU, and solutions that need one are skipped: only verdicts and labels are of interest.
Every line of `--out` is one solution; those that are there already are not judged again. Prints a table.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shrunk_task import Bounds, shrunk_task

from warpsmith import plugins
from warpsmith.config import Config
from warpsmith.errors import WarpsmithError
from warpsmith.machine import describe
from warpsmith.processes.buffers import Scratch
from warpsmith.solutions.judge import judge_solution
from warpsmith.solutions.verdict import SolutionVerdict
from warpsmith.targets.base import Target
from warpsmith.tasks.load import load_task

GPU_ONLY = ("load_inline", "triton", "CUDAGraph", ".cuda(", "cuda.Stream", 'device="cuda"', "device='cuda'")


def name_of(entry: dict[str, Any]) -> str:
    return f"{entry['level_id']}/{entry['task_id']}"


def chosen(path: Path, options: argparse.Namespace, done: set[str]) -> Iterator[dict[str, Any]]:
    """Entries with a solution, spread evenly over the file, that were not judged yet."""
    entries = [
        e for e in map(json.loads, path.read_text().splitlines())
        if e.get("custom_code") not in (None, "", "None") and e["level_id"] in options.level
        and (options.device == "cuda" or not any(word in e["custom_code"] for word in GPU_ONLY))
    ]  # fmt: skip
    if options.tasks:
        entries = [e for e in entries if name_of(e) in options.tasks]
    count = min(options.count or len(entries), len(entries))
    spread = [entries[i * len(entries) // count] for i in range(count)]
    return (e for e in spread if name_of(e) not in done)


def judged(
    entry: dict[str, Any], target: Target, options: argparse.Namespace, config: Config
) -> dict[str, Any]:
    """One line of the outcome."""
    line: dict[str, Any] = {"task": name_of(entry), "claimed": entry.get("score_default")}
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="warpsmith-third-party-") as name, Scratch() as scratch:
        stem = f"level{entry['level_id']}_{entry['task_id']}"
        task_file, solution = Path(name, f"{stem}.py"), Path(name, f"{stem}_solution.py")
        task_file.write_text(entry["ref_code"])
        solution.write_text(entry["custom_code"])
        try:
            if options.device == "cpu":
                task = shrunk_task(str(task_file), Bounds(), scratch=scratch, timeout=config.load_timeout)
            else:
                task = load_task(str(task_file), scratch=scratch, timeout=config.load_timeout)
            verdict = judge_solution(
                solution, task, target, scratch=scratch, cache=config.cache, seed=options.seed,
                baselines=config.baselines if options.device == "cpu" else ("eager", "compile"),
            )  # fmt: skip
            line |= outcome(verdict)
        except WarpsmithError as error:
            line |= {"verdict": "not judged", "reason": str(error)}
    return line | {"seconds": round(time.monotonic() - started, 1)}


def outcome(verdict: SolutionVerdict) -> dict[str, Any]:
    ratios = {name: [r.median, r.low, r.high] for name, r in verdict.speedup.items()}
    return {
        "verdict": verdict.verdict, "label": verdict.label, "labels": verdict.labels, "rule": verdict.rule,
        "reason": "; ".join(verdict.reasons), "speedup": ratios, "hardware": verdict.hardware,
    }  # fmt: skip


def table(lines: list[dict[str, Any]]) -> str:
    rows = ["| task | claimed | judged, over eager | verdict | label | why |", "|---|---:|---:|---|---|---|"]
    for line in lines:
        ratio = line.get("speedup", {}).get("eager")
        judged_as = f"{ratio[0]:.2f}× [{ratio[1]:.2f}, {ratio[2]:.2f}]" if ratio else "–"
        why = (line.get("rule") or line.get("reason", ""))[:80].replace("|", "/").replace("\n", " ")
        rows.append(
            f"| {line['task']} | {line['claimed']} | {judged_as} | {line['verdict']} | {line.get('label', '')} | {why} |"
        )
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("release", type=Path)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--level", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--tasks", nargs="+", help="such as 1/12 2/40; all by default")
    parser.add_argument("--count", type=int, help="so many, spread over the file")
    parser.add_argument("--seconds", type=float, default=1e9, help="start no other solution after this time")
    parser.add_argument("--seed", type=int, default=20261)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    config, started = Config.load(), time.monotonic()
    target: Target = plugins.load("targets", options.device)(config.cache, config.compiler, config.threads)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.loads(t) for t in options.out.read_text().splitlines()] if options.out.exists() else []
    for entry in chosen(options.release, options, {line["task"] for line in lines}):
        if time.monotonic() - started > options.seconds:
            break
        lines.append(judged(entry, target, options, config))
        with options.out.open("a") as out:
            out.write(json.dumps(lines[-1]) + "\n")
        print(f"{lines[-1]['task']}: {lines[-1]['verdict']} {lines[-1].get('reason', '')[:100]}", flush=True)
    print(table(lines))
    print(dict(Counter(line["verdict"] for line in lines)), describe(config.compiler).device)


if __name__ == "__main__":
    main()

"""Winners of the campaign, exported as `ModelNew` files and evaluated by KernelBench's own unmodified evaluation; its number beside ours.

In: a checkout of KernelBench and the folder that `h200_report.py --keep` packed. Out: a JSON file, a row a winner: what KernelBench says
(compiled, correct, microseconds of the solution and of eager, as its own scripts measure: five correctness trials, a hundred timed ones),
and our ratio over eager. Each evaluation is a process of its own with an empty folder to build in. Needs the GPU that the winners are for.
They differ by what is measured: KernelBench's default calls are warm, one after the other on the same inputs; ours are cold, on changed ones.

    python lab/h200_exports.py KERNELBENCH KEPT OUT.json [--most 12] [--seconds S] [--task level1/1 …]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from h200_report import Row, best_of, judged, opened

from warpsmith import machine
from warpsmith.bundles.bundle import read_bundle
from warpsmith.errors import WarpsmithError
from warpsmith.export import to_kernelbench
from warpsmith.export.files import task_text
from warpsmith.targets.cuda import CudaTarget

EVALUATION = """
import json, sys
sys.path.insert(0, sys.argv[1])
from kernelbench.eval import eval_kernel_against_ref
reference, solution = (open(path).read() for path in sys.argv[2:4])
found = eval_kernel_against_ref(
    reference, solution, num_correct_trials=5, num_perf_trials=100, measure_performance=True, build_dir=sys.argv[4]
)
answer = found.model_dump(mode="json", include={"compiled", "correctness", "runtime", "ref_runtime", "metadata"})
print("ANSWER " + json.dumps(answer, default=str))
"""
TIMEOUT = 300.0  # seconds for an evaluation


def wins(folder: Path, arch: str | None, names: Sequence[str]) -> Iterator[tuple[str, Row, str, str]]:
    """(task, our row, the task's file, the exported file) of every win, or of those with these names."""
    with TemporaryDirectory() as cache:
        target = CudaTarget(Path(cache), arch=arch)
        for results in sorted((folder / "results").iterdir()):
            task_name = results.name.replace("_", "/")
            if names and task_name not in names:
                continue
            found = judged(results, folder)
            if found is None or found["status"] != "win":
                continue
            bundle = read_bundle(results / "bundle")
            (task,) = bundle.tasks.values()
            solution = to_kernelbench(task, bundle.candidates[found["candidate"]], target)
            yield task_name, found, task_text(task), solution


def evaluated(kernelbench: Path, reference: str, solution: str) -> dict[str, Any]:
    """What KernelBench answers, or how its process ended."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "reference.py").write_text(reference)
        (folder / "solution.py").write_text(solution)
        command = [
            sys.executable,
            "-c",
            EVALUATION,
            str(kernelbench / "src"),
            *(str(folder / f) for f in ("reference.py", "solution.py", "build")),
        ]
        (folder / "build").mkdir()
        try:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT, check=False
            )
        except subprocess.TimeoutExpired:
            return {"error": f"no answer in {TIMEOUT:.0f} s"}
    answers = [
        line.removeprefix("ANSWER ") for line in done.stdout.splitlines() if line.startswith("ANSWER ")
    ]
    if not answers:
        return {"error": (done.stderr.strip().splitlines() or ["it said nothing"])[-1][:300]}
    found: dict[str, Any] = json.loads(answers[-1])
    return found


def compared(task: str, ours: Row, theirs: dict[str, Any]) -> Row:
    """One row: ratios over eager on either side."""
    made: Row = {"task": task, "candidate": ours["candidate"], "kernelbench": theirs}
    made["ours_over_eager"] = ours["ratios"]["eager"]
    best = best_of(ours)
    made["ours_over_best"] = [best.baseline, best.median] if best is not None else None
    if theirs.get("correctness") and theirs.get("runtime", 0) > 0:
        made["theirs_over_eager"] = round(theirs["ref_runtime"] / theirs["runtime"], 3)
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kernelbench", type=Path, help="a checkout of KernelBench")
    parser.add_argument("kept", type=Path, help="the folder that h200_report.py --keep packed")
    parser.add_argument("out", type=Path, help="a JSON file; rows that it holds are kept")
    parser.add_argument(
        "--task", action="append", default=[], help="level1/1; repeatable; default: every winner"
    )
    parser.add_argument("--most", type=int, default=1000, help="winners to evaluate")
    parser.add_argument(
        "--seconds", type=float, default=3600, help="wall time after which no evaluation begins"
    )
    parser.add_argument("--arch", help="such as sm_90a; default: this machine's GPU")
    given = parser.parse_args(arguments)
    known = json.loads(given.out.read_text())["rows"] if given.out.exists() else []
    rows, ends = {row["task"]: row for row in known}, time.monotonic() + given.seconds
    try:
        with opened([given.kept]) as (folder,):
            for task, ours, reference, solution in wins(folder, given.arch, given.task):
                if task in rows or len(rows) >= given.most or time.monotonic() > ends:
                    continue
                rows[task] = compared(task, ours, evaluated(given.kernelbench, reference, solution))
                print(json.dumps(rows[task])[:300], flush=True)
                about = {
                    "gpu": machine.describe(device="cuda").model_dump(),
                    "date": time.strftime("%Y-%m-%d"),
                }
                given.out.write_text(json.dumps({**about, "rows": list(rows.values())}, indent=1) + "\n")
    except (WarpsmithError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    right = [r for r in rows.values() if r["kernelbench"].get("correctness")]
    print(f"{len(right)} of {len(rows)} are correct by KernelBench's own evaluation")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Records landscapes: what this machine measures of everything the expert can write for tasks of suite core.

    python benchmarks/record_landscapes.py --cache /tmp/lands --out results/landscapes/cpu --jobs 28 --cores 1 --seconds 480
    python benchmarks/record_landscapes.py --target cuda --cache /tmp/lands --out results/landscapes/h200 --jobs 6 --cores 2

For each task every region of every plan, every technique and every setting of its tunables is built, checked by the judge's own
verification, and timed alone in the isolated runner with cold caches; compiler flags are tried on the fastest settings of each
source. Domains whose product is beyond `--most`, or beyond what the time allows, lose values evenly, so that what is recorded
is a full lattice. What is near the best of its region is measured four more times, at other times in other processes, and counts with its
median: the fastest of a hundred that were measured once is mostly a lucky one. A few whole candidates are timed as deployed, to check the model that a landscape adds them up by.

Many lanes evict each other's cache lines: with `--flush-mib 64` each writes that much between cold calls, instead of what it takes to
evict a last-level cache alone (512 MiB where that cache has 300).

Each task runs in a process of its own on `--cores` processors of its own; memory bandwidth and the last cache they share. Rows
are written as they are measured to <out>/<task>.jsonl, and packed to <task>.jsonl.gz when a task is done; the same command goes
on where it was stopped, and with `--seconds 0` only packs what is there.
"""

from __future__ import annotations

import argparse
import gzip
import os
import sys
import tempfile
import threading
from math import ceil
from pathlib import Path

from item_processes import pass_on
from landscape_recorder import record_task
from lanes import environment, run_limited, run_on_lanes, slots

from warpsmith import machine
from warpsmith.errors import UsageError, WarpsmithError
from warpsmith.executors.landscape_file import read
from warpsmith.judge.isolation import runner
from warpsmith.processes.worker import die_with_parent
from warpsmith.tasks.load import load_suite

TASKS = (
    "attention_causal_heads", "attention_window_bias", "conv_bands_to_features", "conv_class_scores",
    "conv_depthwise_norm_relu6", "conv_stem_hardswish", "cosine_similarity_rows", "elementwise_geglu",
    "groupnorm_swish", "instancenorm_leaky_residual", "layernorm_gelu_residual", "layout_patches_to_tokens",
    "layout_upscale_shuffle", "linear_silu_scale_residual", "linear_summed_scores", "log_softmax_pixels",
    "loss_distillation", "loss_triplet", "matmul_batched_small", "matmul_tall_gate", "pool_average_transition",
    "reduce_logsumexp_last", "reduce_weighted_mse_all", "rmsnorm_query_heads", "rmsnorm_residual_pair",
    "scan_ray_transmittance", "softmax_masked_scores", "upsample_merge_skip",
)  # fmt: skip
LOG_LINES = 25  # of a process that ended badly
GRACE = 45.0  # seconds after its time that a task's process is given to end by itself


def main() -> int:
    options = arguments()
    if options.file:
        return child(options)
    paths = {p.stem: p for p in load_suite("core")}
    unknown = set(options.tasks) - set(paths)
    if unknown:
        raise UsageError(f"no task of suite core: {', '.join(sorted(unknown))}")
    options.out.mkdir(parents=True, exist_ok=True)
    options.cache = options.cache.resolve()
    options.cache.mkdir(parents=True, exist_ok=True)
    if options.seconds > 0:
        record_all([paths[name] for name in options.tasks], options)
    for name in options.tasks:
        pack(options.out / f"{name}.jsonl")
    return 0


def record_all(todo: list[Path], options: argparse.Namespace) -> None:
    lanes, stop = processors(options), threading.Event()
    each = options.seconds / ceil(len(todo) / len(lanes))
    for text in run_on_lanes(lambda path: one(path, each, options, stop), todo, lanes, stop):
        print(text, flush=True)


def processors(options: argparse.Namespace) -> list[set[int]]:
    """One set a lane: physical cores, or all hyperthreads where there are too few; fewer lanes where those are too few."""
    try:
        return slots(options.jobs, options.cores)
    except UsageError as error:
        free = machine.affinity()
        jobs = max(1, min(options.jobs, len(free) // options.cores))
        print(f"note: {error}: {jobs} lanes of hyperthreads", flush=True)
        return [set(free[i * options.cores : (i + 1) * options.cores]) for i in range(jobs)]


def one(path: Path, seconds: float, options: argparse.Namespace, stop: threading.Event) -> str | None:
    """What came of one task, by a process of its own; None where all was stopped before."""
    if stop.is_set():
        return None
    file = options.out / f"{path.stem}.jsonl"
    unpack(file)
    with tempfile.TemporaryDirectory(prefix="landscape-") as name:
        folder = Path(name)
        ended = run_limited(
            command(path, file, seconds, options), limit_s=seconds + GRACE, log=folder / "log.txt", stop=stop,
            env=environment(folder, options.cache, options.cores),
        )  # fmt: skip
    if ended.code == 0:
        pack(file)
        return f"{path.stem}: {ended.log[-1] if ended.log else ''}"
    how = f"ended with code {ended.code}" if ended.code is not None else "was stopped"
    return "\n".join([f"{path.stem}: {how} after {ended.seconds:.0f} s", *ended.log[-LOG_LINES:]])


def command(path: Path, file: Path, seconds: float, options: argparse.Namespace) -> list[str]:
    child = [
        sys.executable,
        __file__,
        str(path),
        f"--file={file}",
        f"--seconds={seconds}",
        f"--parent={os.getpid()}",
    ]
    return [*child, *pass_on(options, "cache", "most", "seed", "target", "flush_mib", "baselines")]


def child(options: argparse.Namespace) -> int:
    """One task. What is a bug ends this process with its traceback."""
    die_with_parent(options.parent)
    if options.flush_mib:
        runner.flush_bytes = lambda threads: options.flush_mib << 20
    try:
        told = record_task(
            Path(options.tasks[0]), options.file, options.cache, seconds=options.seconds, most=options.most,
            seed=options.seed, baselines=options.baselines, target=options.target,
        )  # fmt: skip
    except WarpsmithError as error:
        print(f"{type(error).__name__}: {error}")
        return 1
    print(f"{told}; {agreement(options.file)}")
    return 0


def agreement(file: Path) -> str:
    found = read(file)
    return f"rank correlation of the additive model {found.correlate_model():.2f} over {len(found.wholes)} candidates"


def pack(file: Path) -> None:
    """Beside the rows, the same packed; the same rows give the same bytes."""
    if file.exists():
        aside = file.with_suffix(".new")
        aside.write_bytes(gzip.compress(file.read_bytes(), 9, mtime=0))
        aside.replace(file.with_suffix(".jsonl.gz"))
        print(f"{file.stem}: {file.with_suffix('.jsonl.gz').stat().st_size / 1e3:.0f} kB packed", flush=True)


def unpack(file: Path) -> None:
    packed = file.with_suffix(".jsonl.gz")
    if packed.exists() and not file.exists():
        file.write_bytes(gzip.decompress(packed.read_bytes()))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "tasks", nargs="*", default=list(TASKS), help="names of suite core (28 of all families)"
    )
    parser.add_argument("--out", type=Path, default=Path("results/landscapes/cpu"))
    parser.add_argument("--cache", type=Path, default=Path(".landscapes"), help="folder for builds and peaks")
    parser.add_argument("--jobs", type=int, default=1, help="tasks at a time")
    parser.add_argument("--cores", type=int, default=1, help="physical cores of each")
    parser.add_argument("--seconds", type=float, default=600.0, help="in all; 0: only pack what is there")
    parser.add_argument("--most", type=int, default=64, help="settings of a source")
    parser.add_argument(
        "--flush-mib", type=int, default=0, help="written between cold calls; 0: as the judge does"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--target", choices=("cpu", "cuda"), default="cpu", help="of which units are recorded"
    )
    parser.add_argument("--baselines", nargs="+", default=["eager", "compile"])
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--parent", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

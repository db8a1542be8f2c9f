"""Builds the Hopper GEMM kernels, checks them on a GPU, and times them beside cuBLASLt.

    python benchmarks/hgemm_kernels.py build                     where nvcc is; no GPU is needed
    python benchmarks/hgemm_kernels.py check --out FOLDER        each configuration at ragged and even shapes
    python benchmarks/hgemm_kernels.py time --out FOLDER --shapes squares
    python benchmarks/hgemm_kernels.py page --out FOLDER         hgemm_kernels.md of what was timed

The driver is `hgemm/kernels.cu`. It runs in a process of its own: when it says nothing for some seconds, the kernel in
hand hangs; the process is killed, the kernel is recorded and left out, and the others go on. Only the standard library is
needed.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import json
import queue
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from hgemm_configurations import GROUPS, Configuration, Launch, list_choices, list_definitions
from hgemm_model import select_promising

HERE = Path(__file__).resolve().parent
UNITS = HERE / "hgemm"
HEADERS = HERE.parent / "src/warpsmith/kernels/gemm/cuda/hopper"
BUILD = UNITS / "build"
START_LIMIT_S, IDLE_LIMIT_S = 90.0, 10.0  # until the driver's first word, and between two
WARNINGS = re.compile(r"warning|wgmma|setmaxnreg|C75\d\d")
SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
SIZES = (64, 128, 256, 512, 1024, 2048, 4096, 8192, 12288, 16384)
Row = dict[str, Any]
Shape = tuple[int, int, int]

CHECKED: tuple[Shape, ...] = (
    (256, 512, 192), (1000, 776, 328), (8, 200, 72), (64, 64, 4096), (2304, 1800, 640), (136, 4096, 1024),
)  # fmt: skip
ODD: tuple[Shape, ...] = ((77, 94, 54), (301, 130, 258), (77, 93, 51))
TIMED: dict[str, tuple[Shape, ...]] = {
    "squares": ((4096,) * 3, (8192,) * 3),
    "classes": (
        (64, 64, 64), (128, 128, 4096), (256, 256, 1024), (512, 512, 512), (1024, 1024, 1024), (64, 8192, 8192),
        (128, 16384, 4096), (4096, 64, 8192), (512, 512, 16384), (256, 4096, 16384), (2048, 2048, 2048),
        (16384, 16384, 256), (8192, 8192, 1024), (12288, 4096, 4096), (16384, 8192, 8192),
    ),
    "grid": tuple(product(SIZES, SIZES, SIZES)),
}  # fmt: skip


@dataclass(frozen=True)
class Variant:
    """A cubin and its launch, as a line for the driver."""

    configuration: Configuration
    launch: Launch

    @property
    def name(self) -> str:
        return f"{self.configuration.name}_{self.launch.suffix}"

    @property
    def line(self) -> str:
        launch = self.launch
        cubin = BUILD / f"{self.configuration.name}.cubin"
        return f"{self.name} {cubin} {launch.group} {launch.along_n} {launch.parts} {launch.dependent}"


def list_variants(groups: list[str], only: str) -> list[Variant]:
    """List the variants of these groups (none: of all) whose names match."""
    return [
        variant for configuration, launches in list_choices(groups or list(GROUPS)).items() for launch in launches
        if fnmatch.fnmatch((variant := Variant(configuration, launch)).name, only)
    ]  # fmt: skip


# ---- build ----
def hash_sources() -> str:
    sources = sorted([*HEADERS.glob("*.cuh"), *UNITS.glob("*.cu"), *UNITS.glob("*.h")])
    return hashlib.sha256(b"".join(s.read_bytes() for s in sources if s.name != "kernels.cu")).hexdigest()


def build_cubin(configuration: Configuration, sources: str, nvcc: str) -> Row:
    """Compile one configuration, unless its cubin is up to date. The row says what the compiler reports."""
    cubin, record = (BUILD / f"{configuration.name}.{suffix}" for suffix in ("cubin", "json"))
    definitions = list_definitions(configuration)
    key = hashlib.sha256((sources + " ".join(definitions)).encode()).hexdigest()
    if cubin.exists() and record.exists() and (kept := json.loads(record.read_text()))["key"] == key:
        return dict(kept)
    architecture = configuration.architecture.removeprefix("sm_")
    command = [
        nvcc, "-std=c++17", "-O3", "-cubin", f"-gencode=arch=compute_{architecture},code=sm_{architecture}",
        "-Xptxas", "-v,--warn-on-spills", f"-I{HEADERS}", f"-I{UNITS}", *definitions, "-o", str(cubin),
        str(UNITS / configuration.unit),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    report = done.stdout + done.stderr
    row: Row = {"name": configuration.name, "key": key, "built": done.returncode == 0}
    row["registers"] = max((int(r) for r in re.findall(r"Used (\d+) registers", report)), default=0)
    row["spilled_bytes"] = sum(int(x) for sizes in SPILLS.findall(report) for x in sizes)
    row["warnings"] = [line for line in report.splitlines() if WARNINGS.search(line)]
    row["error"] = "" if row["built"] else report[:2000]
    if row["built"]:
        record.write_text(json.dumps(row))
    return row


def build_all(configurations: Iterable[Configuration], nvcc: str, jobs: int) -> list[Row]:
    BUILD.mkdir(parents=True, exist_ok=True)
    sources = hash_sources()
    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(lambda c: build_cubin(c, sources, nvcc), configurations))


def report_build(rows: Sequence[Row]) -> bool:
    """Print what is not as it should be. Tell whether all is well."""
    odd = [r for r in rows if not r["built"] or r["spilled_bytes"] or r["warnings"]]
    for row in odd:
        print(
            f"{row['name']}: {row['error'] or row['warnings'] or str(row['spilled_bytes']) + ' bytes spilled'}"
        )
    kilobytes = sum(p.stat().st_size for p in BUILD.glob("*.cubin")) // 1000
    print(f"{len(rows)} configurations, {len(odd)} of them odd; {kilobytes} kB of cubins in {BUILD}")
    return not odd


def find_library() -> list[str]:
    """Flags for a cuBLASLt that is not in the toolkit but in a Python package, as torch brings it; none where there is none."""
    for header in (h for place in sys.path for h in Path(place or ".").glob("nvidia/*/include/cublasLt.h")):
        for library in sorted((header.parents[1] / "lib").glob("libcublasLt.so.*")):
            folder = library.parent
            return [f"-I{header.parent}", f"-L{folder}", f"-l:{library.name}", "-Xlinker", f"-rpath={folder}"]
    return []


def build_driver(nvcc: str, folder: Path) -> Path:
    driver = folder / "kernels"
    command = [
        nvcc, "-std=c++17", "-O2", "-gencode=arch=compute_90,code=sm_90", f"-I{HEADERS}", f"-I{UNITS}", "-o", str(driver),
        str(UNITS / "kernels.cu"),
    ]  # fmt: skip
    report = ""
    for flags in (["-lcublasLt"], find_library()):
        done = subprocess.run([*command, *flags], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return driver
        report += done.stdout + done.stderr
    sys.exit(f"the driver does not build: {report[-3000:]}")


# ---- run ----
@dataclass
class Driver:
    """The driver's process. It prints "BEGIN name …" before each kernel, then a JSON line."""

    command: list[str]
    idle_limit_s: float

    def run(self, take: Callable[[Row], None], until_s: float) -> tuple[str, str]:
        """Give each row to `take`. Returns how it ended ("done", "hang", "crash", "time is up") and the kernel in hand."""
        process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert process.stdout is not None
        lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=read_lines, args=(process.stdout, lines), daemon=True).start()
        in_hand, limit_s, ended = "", START_LIMIT_S, "crash"
        try:
            while True:
                left_s = until_s - time.monotonic()
                try:
                    line = lines.get(timeout=max(0.01, min(limit_s, left_s)))
                except queue.Empty:
                    ended = "time is up" if time.monotonic() >= until_s else "hang"
                    break
                if line is None:
                    break
                limit_s = self.idle_limit_s
                if line.startswith("BEGIN "):
                    in_hand = line.split()[1]
                elif line.startswith("{"):
                    take(
                        json.loads(
                            line.replace(": nan", ": null")
                            .replace(": -nan", ": null")
                            .replace(": inf", ": null")
                        )
                    )
                elif line.strip() == "DONE":
                    ended = "done"
                else:
                    print(line.rstrip(), flush=True)
        finally:
            process.kill()
            process.wait()
        return ended, in_hand


def read_lines(stream: Iterable[str], lines: queue.SimpleQueue[str | None]) -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)


def write_inputs(folder: Path, variants: Sequence[Variant], shapes: Iterable[str]) -> tuple[str, str]:
    names = folder / "variants.txt", folder / "shapes.txt"
    names[0].write_text("".join(f"{v.line}\n" for v in variants))
    names[1].write_text("".join(f"{s}\n" for s in shapes))
    return str(names[0]), str(names[1])


def list_shapes(shapes: Iterable[Shape], types: Sequence[int], layouts: Sequence[int]) -> list[str]:
    return [f"{m} {n} {k} {bt} {bf16}" for m, n, k in shapes for bt in layouts for bf16 in types]


def run_check(
    driver: Path, variants: list[Variant], idle_limit_s: float, until_s: float, take: Callable[[Row], None]
) -> None:
    """Check every variant. One that hangs or crashes the driver is recorded, and the driver starts again after it."""
    shapes = list_shapes([*CHECKED, *ODD], (0, 1), (0, 1))
    waiting = list(variants)
    while waiting:
        with tempfile.TemporaryDirectory() as folder:
            inputs = write_inputs(Path(folder), waiting, shapes)
            ended, in_hand = Driver([str(driver), "check", *inputs], idle_limit_s).run(take, until_s)
        if ended == "done":
            return
        take({"name": in_hand, "status": ended})
        if ended == "time is up" or not in_hand:
            return
        waiting = waiting[[v.name for v in waiting].index(in_hand) + 1 :]


def choose_variants(variants: Sequence[Variant], shape: str, count: int) -> str:
    """Return a shape's line for the driver: with the numbers of the variants that should be quickest there; all of them for no count."""
    m, n, k, b_transposed, _ = map(int, shape.split())
    chosen = select_promising(variants, (m, n, k), b_transposed, count) if count else []
    return " ".join([shape, *map(str, chosen)])


def run_time(
    driver: Path, variants: list[Variant], shapes: list[str], rounds: int, replay_us: int, idle_limit_s: float, until_s: float,
    take: Callable[[Row], None], promising: int = 0,
) -> None:  # fmt: skip
    """Time the variants at each shape, a shape at a time, so that a hang costs one shape and the variant that hangs. `promising`: so many at
    each shape, by their estimates; 0: all.
    """
    waiting, variants = list(shapes), list(variants)
    while waiting and variants:
        done: set[str] = set()

        def take_and_mark(row: Row, done: set[str] = done) -> None:
            if "m" in row:
                done.add(f"{row['m']} {row['n']} {row['k']} {row['b_transposed']} {row['bf16']}")
            take(row)

        with tempfile.TemporaryDirectory() as folder:
            lines = [choose_variants(variants, s, promising) for s in waiting]
            inputs = write_inputs(Path(folder), variants, lines)
            command = [str(driver), "time", *inputs, str(rounds), str(replay_us)]
            ended, in_hand = Driver(command, idle_limit_s).run(take_and_mark, until_s)
        if ended == "done":
            return
        take({"name": in_hand, "status": ended})
        if ended == "time is up" or in_hand not in [v.name for v in variants]:
            return
        variants = [v for v in variants if v.name != in_hand]
        waiting = [s for s in waiting if s not in done]


# ---- results ----
def select_right(variants: list[Variant], rows: Iterable[Row]) -> list[Variant]:
    """Variants with rows of a check, all of them right."""
    statuses: dict[str, set[str]] = {}
    for row in rows:
        if "status" in row:
            statuses.setdefault(row["name"], set()).add(row["status"])
    return [v for v in variants if statuses.get(v.name) == {"right"}]


def read_rows(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def summarize_check(rows: Sequence[Row]) -> str:
    by_name: dict[str, list[Row]] = {}
    for row in rows:
        by_name.setdefault(row.get("name", "driver"), []).append(row)
    bad = {n: [r for r in rs if r.get("status") != "right"] for n, rs in by_name.items()}
    lines = [
        f"{n}: {json.dumps(rs[0])}" + (f" and {len(rs) - 1} more" if len(rs) > 1 else "")
        for n, rs in bad.items()
        if rs
    ]
    return "\n".join(
        [*lines, f"{len(by_name)} variants, {sum(1 for rs in bad.values() if not rs)} right at every shape"]
    )


def group_by_shape(rows: Sequence[Row]) -> dict[tuple[int, ...], dict[str, Row]]:
    """Return (m, n, k, whether B is N x K, whether bf16) → name → the row of its times."""
    by_shape: dict[tuple[int, ...], dict[str, Row]] = {}
    for row in rows:
        if "cold_us" in row:
            shape = tuple(row[x] for x in ("m", "n", "k", "b_transposed", "bf16"))
            by_shape.setdefault(shape, {})[row["name"]] = row
    return by_shape


def make_page(rows: Sequence[Row]) -> str:
    """A table in Markdown: the library's times at each shape, and the quickest variant beside its quickest answer."""
    about = next(r for r in rows if "device" in r)
    lines = [
        "# Half-precision GEMM kernels beside cuBLASLt", "",
        f"{about['device']}, cuBLASLt {about['library']}. Microseconds on the device, medians; cold: the L2 cache evicted before each call; graph: one call after the "
        "other. Ratio: the library's quickest answer over our quickest variant. nk: B is stored N x K.", "",
        "| shape | TFLOP/s | heuristic, cold | autotuned, cold | ours, cold | ratio | heuristic, graph | autotuned, graph | ours, graph | ratio |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for (m, n, k, bt, bf16), named in group_by_shape(rows).items():
        cells = [f"{m}×{n}×{k} {'nk' if bt else 'kn'}{' bf16' if bf16 else ''}"]
        for kind in ("cold_us", "replay_us"):
            library = min(r[kind] for x, r in named.items() if x.startswith("cublaslt_autotuned"))
            ours = min(
                (r for x, r in named.items() if not x.startswith(("cublaslt", "empty"))),
                key=lambda r: r[kind],
            )
            cells += [
                f"{named['cublaslt_heuristic'][kind]:.1f}",
                f"{library:.1f}",
                f"{ours[kind]:.1f} {ours['name']}",
            ]
            cells.append(f"{library / ours[kind]:.3f}")
        cells.insert(1, f"{2e-6 * m * n * k / library:.0f}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def summarize_time(rows: Sequence[Row], best: int = 4) -> str:
    """For each shape the library's times and the quickest variants, cold and in graph replay, with TFLOP/s."""
    lines = []
    for (m, n, k, bt, bf16), named in group_by_shape(rows).items():
        for kind in ("cold_us", "replay_us"):
            library = min(r[kind] for x, r in named.items() if x.startswith("cublaslt_autotuned"))
            variants = sorted(
                (r for x, r in named.items() if not x.startswith(("cublaslt", "empty"))),
                key=lambda r: r[kind],
            )
            text = " ".join(f"{r['name']} {r[kind]:.1f} ({library / r[kind]:.3f})" for r in variants[:best])
            lines.append(
                f"{m}x{n}x{k} {'nk' if bt else 'kn'}{' bf16' if bf16 else ''} {kind[:-3]}: empty {named['empty'][kind]:.1f} heuristic "
                f"{named['cublaslt_heuristic'][kind]:.1f} autotuned {library:.1f} us, {2e-6 * m * n * k / library:.0f} TFLOP/s; {text}"
            )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=("build", "check", "time", "page"))
    parser.add_argument("--groups", default=",".join(GROUPS), help="comma-separated: " + ", ".join(GROUPS))
    parser.add_argument("--only", default="*", help="a pattern that names of variants match")
    parser.add_argument("--out", type=Path, default=Path("."), help="folder of check.jsonl and time.jsonl")
    parser.add_argument(
        "--shapes", default="squares", help="a list (" + ", ".join(TIMED) + ") or MxNxK,MxNxK,…"
    )
    parser.add_argument("--layouts", default="1,0", help="1: B is N x K, 0: K x N")
    parser.add_argument("--types", default="0", help="0: fp16, 1: bf16")
    parser.add_argument(
        "--promising",
        type=int,
        default=0,
        help="time so many variants at a shape, by their estimates; 0: all",
    )
    parser.add_argument("--shard", default="0/1", help="I/N: of the shapes every N-th, from the I-th on")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--replay-us", type=int, default=2000, help="device time of one graph replay")
    parser.add_argument("--idle-limit-s", type=float, default=IDLE_LIMIT_S)
    parser.add_argument("--seconds", type=float, default=500, help="then stop")
    parser.add_argument("--unchecked", action="store_true", help="time variants without rows of a check, too")
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    until_s = time.monotonic() + options.seconds
    groups = options.groups.split(",")
    if unknown := [g for g in groups if g not in GROUPS]:
        parser.error(f"unknown group {unknown[0]}; there are {', '.join(GROUPS)}")
    variants = list_variants(groups, options.only)
    if not variants:
        parser.error(f"no variant matches {options.only}")
    if options.action == "page":
        (options.out / "hgemm_kernels.md").write_text(make_page(read_rows(options.out / "time.jsonl")))
        return 0
    if options.action == "build":
        return (
            0
            if report_build(
                build_all(dict.fromkeys(v.configuration for v in variants), options.nvcc, options.jobs)
            )
            else 1
        )
    variants = [v for v in variants if (BUILD / f"{v.configuration.name}.cubin").exists()]
    if not variants:
        parser.error(f"no cubin in {BUILD}; run the action build first")
    options.out.mkdir(parents=True, exist_ok=True)
    return run_action(options, variants, until_s)


def run_action(options: argparse.Namespace, variants: list[Variant], until_s: float) -> int:
    path = options.out / f"{options.action}.jsonl"
    rows: list[Row] = []
    with path.open("a") as file, tempfile.TemporaryDirectory() as folder:

        def take(row: Row) -> None:
            rows.append(row)
            file.write(json.dumps(row) + "\n")
            file.flush()

        driver = build_driver(options.nvcc, Path(folder))
        if options.action == "check":
            run_check(driver, variants, options.idle_limit_s, until_s, take)
            print(summarize_check(rows))
            return 0 if all(r.get("status") == "right" for r in rows) else 1
        if not options.unchecked:
            variants = select_right(variants, read_rows(options.out / "check.jsonl"))
        if not variants:
            sys.exit(
                f"no variant is known to be right: run the action check first, with the same --out {options.out}"
            )
        shapes = TIMED.get(options.shapes) or [parse_shape(s) for s in options.shapes.split(",")]
        numbers = [[int(x) for x in text.split(",")] for text in (options.types, options.layouts)]
        lines = list_untimed(list_shapes(shapes, *numbers), options.shard, read_rows(path))
        run_time(
            driver, variants, lines, options.rounds, options.replay_us, options.idle_limit_s, until_s, take,
            options.promising,
        )  # fmt: skip
        print(summarize_time(rows))
        return 0 if any("cold_us" in r for r in rows) else 1


def list_untimed(shapes: Sequence[str], shard: str, rows: Iterable[Row]) -> list[str]:
    """Return the shapes of a shard that no row has times of."""
    first, _, count = shard.partition("/")
    if not (first.isdigit() and count.isdigit() and int(first) < int(count)):
        sys.exit(f"{shard} is no shard: write I/N, with I below N")
    timed = {f"{r['m']} {r['n']} {r['k']} {r['b_transposed']} {r['bf16']}" for r in rows if "cold_us" in r}
    return [s for s in shapes[int(first) :: int(count)] if s not in timed]


def parse_shape(text: str) -> Shape:
    sizes = text.split("x")
    if len(sizes) != 3 or not all(s.isdigit() for s in sizes):
        sys.exit(f"{text} is no shape: write MxNxK")
    m, n, k = (int(s) for s in sizes)
    return m, n, k


if __name__ == "__main__":
    sys.exit(main())

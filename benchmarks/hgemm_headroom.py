"""How much cuBLAS leaves: half-precision products of 1,000 shapes on one GPU against the floor of each one's time.

    python benchmarks/hgemm_headroom.py --layout nn --out results/h200/hgemm_headroom_nn
    python benchmarks/hgemm_headroom.py --check

fp16 operands and output, fp32 accumulation, row-major A and C, B row-major (`nn`) or transposed (`tn`), N(0, 1) inputs, alpha = 1,
beta = 0. Three callees: cuBLAS (`cublasGemmEx`), cuBLASLt's first answer, and the best of all its answers (each called a few times, the best
by either protocol called more often, the winner of each protocol measured anew beside the others). Two protocols, both device time:

- cold: the L2 cache is evicted before each call by reading four times its size, so that it holds clean lines; CUDA events around the one
  call, queued while the device is still busy;
- graph: a CUDA graph of 2 to 256 calls over rotating operands, replayed; its time divided by its calls. The operands of a graph
  exceed the L2 cache but for the smallest shapes: `rotated_bytes` says it.

An empty kernel is timed beside them: nothing launched alone ends sooner. Callees take turns, call by call. A time is a median with the 10%
and 90% points of its repeats. Libraries may round the partial sums of split-K to fp16, as they do by default; `--reduction fp32` forbids it.
The workspace is 64 MiB, and 32 answers are asked for.

Writes <out>.jsonl, one row a shape as it is done, in an order that covers all classes early (the same command goes on where it was
stopped; `--limit-s 0` only writes the page), and <out>.md. `--check` compares every algorithm with the float64 product on a few shapes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hgemm_headroom_page import find_faults, make_page
from hgemm_program import Program, build_program
from hgemm_shapes import H100_RATES, H200_RATES, Rates, Shape, interleave_classes
from json_lines import append_line, known_lines
from pages import write_page

from warpsmith.errors import UsageError, WarpsmithError

RATES = {"NVIDIA H200": H200_RATES, "NVIDIA H100 80GB HBM3": H100_RATES}
SETTINGS = ("layout", "reduction", "workspace_mib", "algorithms", "measure_ms")
KILLED_AFTER_S = 30  # after the time limit
MAX_FAILURES = 3  # processes that may end at a shape; then something is wrong with all
INPUT_TOLERANCE = 0.01  # of the inputs' mean and standard deviation
# Rounding a result to fp16 alone is a relative Frobenius error of about 2.1e-4; sums in fp32 add next to nothing. Partial sums that are
# rounded to fp16 as well reach 2.9e-4 and more.
ERROR_LIMIT, ERROR_LIMIT_ROUNDED = 2.5e-4, 5e-4
# Few tiles and deep K among them, for split-K.
CHECKED = (
    Shape(64, 64, 64),
    Shape(128, 256, 512),
    Shape(512, 64, 2048),
    Shape(64, 128, 16384),
    Shape(512, 512, 1024),
)
Row = dict[str, Any]


def main() -> int:
    options = parse_arguments()
    try:
        return check(options) if options.check else measure(options)
    except WarpsmithError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code


def measure(options: argparse.Namespace) -> int:
    """Measure what has no row until the time is over, and write the page."""
    file, deadline = options.out.with_suffix(".jsonl"), time.monotonic() + options.limit_s
    rows = known_lines(file)
    known = {read_shape(row) for row in rows if "m" in row}
    todo = [shape for shape in interleave_classes() if shape not in known]
    if todo and options.limit_s > 0:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            command = make_command(build_program(Path(folder)), "measure", options.layout, options)
            for row in measure_rest(command, todo, deadline, rows, read_settings(options)):
                append_line(file, row)
    rows = known_lines(file)
    header = next((row for row in reversed(rows) if "device" in row), None)
    if header is None:
        raise UsageError(f"{file} has no rows: give --limit-s more than 0 on a machine with a GPU")
    measured = [row for row in rows if "m" in row]
    write_page(options.out.with_suffix(".md"), make_page(header, measured, choose_rates(options, header)))
    return int(any(find_faults(row) for row in measured))


def measure_rest(
    command: Sequence[str], todo: Sequence[Shape], deadline: float, rows: Sequence[Row], settings: Row
) -> Iterator[Row]:
    """Yield a header for each process that is started, and a row a shape; after a process failed at a shape the next one goes on."""
    program, failures = None, 0
    try:
        for shape in todo:
            if time.monotonic() >= deadline or failures == MAX_FAILURES:
                return
            if program is None:
                program = Program(command, deadline + KILLED_AFTER_S - time.monotonic())
                header = {**program.facts, **settings}
                expect_same(rows, header)
                yield header
            row = program.ask(shape)
            yield {"m": shape.m, "n": shape.n, "k": shape.k, **row}
            if "error" in row:
                program.close()
                program, failures = None, failures + 1
    finally:
        if program is not None:
            program.close()


def expect_same(rows: Sequence[Row], header: Row) -> None:
    """Raise UsageError unless earlier rows come from the same device, libraries and settings, and the inputs are N(0, 1)."""
    for earlier in (row for row in rows if "device" in row):
        for name in ("device", "cublas", "cublaslt", *SETTINGS):
            if earlier[name] != header[name]:
                raise UsageError(
                    f"the rows that are there have {name} {earlier[name]}, not {header[name]}: give another --out"
                )
    if abs(header["input_mean"]) > INPUT_TOLERANCE or abs(header["input_std"] - 1) > INPUT_TOLERANCE:
        raise UsageError(
            f"inputs have mean {header['input_mean']} and deviation {header['input_std']}, not 0 and 1"
        )


def check(options: argparse.Namespace) -> int:
    """Compare every algorithm with the float64 product, in both layouts; return 1 if an error is over its limit."""
    wrong = count = 0
    with tempfile.TemporaryDirectory() as folder:
        path = build_program(Path(folder))
        for layout in ("nn", "tn"):
            with Program(make_command(path, "check", layout, options), options.limit_s) as program:
                for shape in CHECKED:
                    row = program.ask(shape)
                    faults = judge_errors(row)
                    count, wrong = count + len(row.get("errors", ())), wrong + len(faults)
                    worst = max(
                        (e["error"] for e in row.get("errors", ()) if e["error"] is not None),
                        default=float("nan"),
                    )
                    print(
                        f"{layout} {shape}: {len(row.get('errors', ()))} calls, largest error {worst:.2e}",
                        *faults,
                        sep="\n  ",
                    )
    print(
        f"{count} calls compared with float64, {wrong} over the limit ({ERROR_LIMIT:g}; {ERROR_LIMIT_ROUNDED:g} where partial sums may be fp16)"
    )
    return int(wrong > 0 or count == 0)


def judge_errors(row: Row) -> list[str]:
    """Say what is over its limit; an output with a NaN, which was not written, has no error and is."""
    if "errors" not in row:
        return [f"not compared: {row['error']}"]
    faults = []
    for call in row["errors"]:
        limit = ERROR_LIMIT_ROUNDED if call["may_round_partial_sums"] else ERROR_LIMIT
        if call["error"] is None or call["error"] > limit:
            faults.append(f"{call['call']}: error {call['error']}, over {limit:g}")
    return faults


def make_command(program: Path, mode: str, layout: str, options: argparse.Namespace) -> list[str]:
    values = (mode, layout, options.workspace_mib, options.algorithms, options.measure_ms, options.reduction)
    return [str(program), *map(str, values)]


def read_settings(options: argparse.Namespace) -> Row:
    return {name: getattr(options, name) for name in SETTINGS}


def read_shape(row: Row) -> Shape:
    return Shape(row["m"], row["n"], row["k"])


def choose_rates(options: argparse.Namespace, header: Row) -> Rates:
    """Choose the rates of the floors: those of the command, else the device's. Raises UsageError for a device without any."""
    if options.peak_tflops and options.peak_tbps:
        return Rates(options.peak_tflops, options.peak_tbps, "as the command line says")
    if options.peak_tflops or options.peak_tbps:
        raise UsageError("give both --peak-tflops and --peak-tbps, or neither")
    if header["device"] not in RATES:
        raise UsageError(f"no rates are known of {header['device']}: give --peak-tflops and --peak-tbps")
    return RATES[header["device"]]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--layout", choices=("nn", "tn"), default="nn", help="of B: row-major, or transposed")
    parser.add_argument(
        "--reduction", choices=("any", "fp32"), default="any", help="of split-K's partial sums"
    )
    parser.add_argument("--workspace-mib", type=int, default=64)
    parser.add_argument("--algorithms", type=int, default=32, help="answers that the heuristic is asked for")
    parser.add_argument("--measure-ms", type=float, default=10.0, help="for each measurement of each callee")
    parser.add_argument("--limit-s", type=float, default=280.0, help="for all; the same command goes on")
    parser.add_argument(
        "--peak-tflops", type=float, help="for the floors; else the device's, as far as known"
    )
    parser.add_argument("--peak-tbps", type=float, help="the same of memory, in TB/s")
    parser.add_argument("--check", action="store_true", help="only compare results with float64")
    parser.add_argument("--out", type=Path, help="files to write, without their ending")
    options = parser.parse_args()
    if not options.check and options.out is None:
        parser.error("--out is needed, unless it is a --check")
    return options


if __name__ == "__main__":
    raise SystemExit(main())

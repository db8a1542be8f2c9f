"""The page of `hgemm_headroom.py`: headroom by class, what tuning found, and where most is left.

In: the header of the device, rows, and the rates of the floors. Out: Markdown. Ratios are geometric means; the means by FLOP
weigh each shape's ratio with its operations. Brackets hold the ratio with both times at the far ends of their 10% and 90% points.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import geometric_mean, median
from typing import Any

from hgemm_shapes import CLASSES, H200_RATES, Rates, Shape, classify, list_grid
from pages import list_table

PROTOCOLS = ("cold", "graph")
# Two outputs that differ by rounding alone are far closer; fp16 partial sums of split-K are within it.
DIFFERENCE_LIMIT = 5e-4
DIFFERENCES = ("heuristic_difference", "cold_difference", "graph_difference")
WIDEST = 5  # shapes of each class that are listed
MEDIAN, LOW, HIGH = 0, 1, 2  # positions in a recorded time
Row = dict[str, Any]
Ratio = tuple[float, float, float]


def make_page(header: Row, rows: Sequence[Row], rates: Rates) -> str:
    timed = [row for row in rows if "autotuned" in row]
    faults = [f"{read_shape(row)}: {fault}" for row in rows for fault in find_faults(row)]
    lines = [
        "# Headroom of cuBLAS on half-precision products", "",
        f"{header['device']}, cuBLAS {header['cublas']}, cuBLASLt {header['cublaslt']}, CUDA driver {header['driver']}. Layout {header['layout']}; "
        f"fp16 in and out, fp32 accumulation; partial sums of split-K: {header['reduction']}. Workspace {header['workspace_mib']} MiB, "
        f"{header['algorithms']} answers asked for, {header['measure_ms']:g} ms a measurement.", "",
        f"Floor: the longer of operations over {rates.tflops:g} TFLOP/s and bytes over {rates.tbps:g} TB/s ({rates.source}). "
        f"Classes go by {H200_RATES.tflops:g} TFLOP/s and {H200_RATES.tbps:g} TB/s on any GPU.", "",
        f"{len(timed)} of {len(list_grid())} shapes were timed, {len(faults)} faults. Ratios are geometric means; "
        "in brackets, with both times at the far ends of their 10% and 90% points. Spread: between these points, of the autotuned time's "
        "median; the median over the shapes.", "",
    ]  # fmt: skip
    for protocol in PROTOCOLS if timed else ():
        lines += [f"## {protocol.capitalize()}", "", *describe_classes(timed, protocol, rates), ""]
    if timed:
        lines += ["## Tuning", "", *describe_tuning(timed, header["l2_bytes"]), ""]
        lines += ["## Widest headroom", "", *list_widest(timed, rates), ""]
    if faults:
        lines += ["## Faults", "", *(f"- {fault}" for fault in faults), ""]
    return "\n".join(lines)


def describe_classes(rows: Sequence[Row], protocol: str, rates: Rates) -> list[str]:
    """A table of ratios by class, and of all."""
    titles = (
        "class", "shapes", "empty kernel", "cuBLAS / autotuned", "heuristic / autotuned", "by FLOP", "autotuned / floor", "by FLOP",
        "autotuned / larger of floor and empty", "spread",
    )  # fmt: skip
    groups = {name: [r for r in rows if classify(read_shape(r)) == name] for name in CLASSES}
    groups["all"] = list(rows)
    return list_table(
        titles, [describe_class(name, group, protocol, rates) for name, group in groups.items()]
    )


def describe_class(name: str, rows: Sequence[Row], protocol: str, rates: Rates) -> tuple[str, ...]:
    total = sum(classify(shape) == name for shape in list_grid()) or len(list_grid())
    if not rows:
        return (name, f"0 of {total}", *["—"] * 8)
    over_cublas = [divide(r["cublas"][protocol], r["autotuned"][protocol]) for r in rows]
    gains = [divide(r["heuristic"][protocol], r["autotuned"][protocol]) for r in rows]
    floors = [rates.floor_us(read_shape(r)) for r in rows]
    headrooms = [divide(r["autotuned"][protocol], [f, f, f]) for r, f in zip(rows, floors, strict=True)]
    reachable = [max(f, r["empty"][protocol][MEDIAN]) for r, f in zip(rows, floors, strict=True)]
    above_empty = [divide(r["autotuned"][protocol], [f, f, f]) for r, f in zip(rows, reachable, strict=True)]
    return (
        name, f"{len(rows)} of {total}", f"{median(r['empty'][protocol][MEDIAN] for r in rows):.2f} µs", describe_mean(over_cublas),
        describe_mean(gains), f"{weigh_by_flops(rows, gains):.3f}", describe_mean(headrooms), f"{weigh_by_flops(rows, headrooms):.3f}",
        describe_mean(above_empty), f"{median(measure_spread(r['autotuned'][protocol]) for r in rows):.1%}",
    )  # fmt: skip


def divide(over: Sequence[float], under: Sequence[float]) -> Ratio:
    """Divide two times: of the medians, and of the ends that are farthest apart either way."""
    return over[MEDIAN] / under[MEDIAN], over[LOW] / under[HIGH], over[HIGH] / under[LOW]


def describe_mean(ratios: Sequence[Ratio]) -> str:
    middle, low, high = (geometric_mean(values) for values in zip(*ratios, strict=True))
    return f"{middle:.3f} [{low:.3f}, {high:.3f}]"


def weigh_by_flops(rows: Sequence[Row], ratios: Sequence[Ratio]) -> float:
    flops = [read_shape(row).flops for row in rows]
    return sum(f * ratio[MEDIAN] for f, ratio in zip(flops, ratios, strict=True)) / sum(flops)


def measure_spread(time: Sequence[float]) -> float:
    return (time[HIGH] - time[LOW]) / time[MEDIAN]


# ---------------------------------------------------------------- algorithms


def describe_tuning(rows: Sequence[Row], l2_bytes: int) -> list[str]:
    lines = [
        f"- The heuristic gave {median(r['answers'] for r in rows):g} answers a shape (median); {sum(r['refused'] for r in rows)} were refused.",
        f"- In {sum(r['rotated_bytes'] <= l2_bytes for r in rows)} shapes the operands of a graph fit into the L2 cache.",
    ]
    for protocol in PROTOCOLS:
        winners = [r[f"{protocol}_algorithm"] for r in rows]
        # By the header of cuBLASLt: 1 reduces in the output, 4 in its type; both round partial sums to fp16.
        rounded = sum(w["reduction"] in (1, 4) for w in winners)
        kept, split = sum(w["rank"] == 0 for w in winners), sum(w["split_k"] > 1 for w in winners)
        same = [
            divide(r["heuristic"][protocol], r["autotuned"][protocol])[MEDIAN]
            for r, w in zip(rows, winners, strict=True) if w["rank"] == 0
        ]  # fmt: skip
        noise = f" (its two times there: ratio {geometric_mean(same):.3f})" if same else ""
        lines.append(
            f"- {protocol.capitalize()}: the first answer stays the best in {kept} shapes{noise}; {split} winners split K, "
            f"{rounded} round partial sums to fp16."
        )
    return lines


def list_widest(rows: Sequence[Row], rates: Rates) -> list[str]:
    """A table of the shapes of each class in which autotuned cuBLASLt is farthest from the floor, cold."""
    titles = (
        "class",
        "shape",
        "floor",
        "empty, cold",
        *(f"{c}, {p}" for p in PROTOCOLS for c in ("heuristic", "autotuned")),
        "over floor",
    )
    cells = []
    for name in CLASSES:
        members = [r for r in rows if classify(read_shape(r)) == name]
        for row in sorted(members, key=lambda r: measure_headroom(r, rates), reverse=True)[:WIDEST]:
            shape, headroom = read_shape(row), measure_headroom(row, rates)
            times = [describe_time(row[c][p]) for p in PROTOCOLS for c in ("heuristic", "autotuned")]
            lead = (name, str(shape), f"{rates.floor_us(shape):.2f}", f"{row['empty']['cold'][MEDIAN]:.2f}")
            cells.append((*lead, *times, f"{headroom:.2f}"))
    return ["Microseconds, with 10% and 90% points.", "", *list_table(titles, cells)]


def measure_headroom(row: Row, rates: Rates) -> float:
    """The cold time of the best algorithm over the floor."""
    return float(row["autotuned"]["cold"][MEDIAN] / rates.floor_us(read_shape(row)))


def describe_time(time: Sequence[float]) -> str:
    return f"{time[MEDIAN]:.2f} [{time[LOW]:.2f}, {time[HIGH]:.2f}]"


def find_faults(row: Row) -> list[str]:
    """Say why a row has no times, and which results are not cuBLAS's."""
    if "autotuned" not in row:
        return [row.get("error") or row.get("reason") or "no times"]
    return [
        f"{name.replace('_', ' ')} from cuBLAS is {row[name]}"
        for name in DIFFERENCES if row[name] is None or row[name] > DIFFERENCE_LIMIT
    ]  # fmt: skip


def read_shape(row: Row) -> Shape:
    return Shape(row["m"], row["n"], row["k"])

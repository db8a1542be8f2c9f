"""The lines of `third_party.py` as a page: what published speedups are worth under this project's judge.

    python lab/third_party_report.py share1.jsonl share2.jsonl share3.jsonl share4.jsonl --out docs/what-we-found.md

Lines of one or several files in, Markdown out: conditions, counts, claimed and judged speedups over the same
solutions, what was found wrong, the largest gaps, every solution. Each figure of the page is counted from the
lines. A solution that stands in two files counts once, as the last one says.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import benchmarks_on_path  # noqa: F401
from json_lines import known_lines

from warpsmith.report.markdown import escape

Line = dict[str, Any]

VERDICTS = ("correct", "incorrect", "invalid", "not judged")
LABELS = ("kernel", "algorithmic", "library", "none", "")
SHORT = 160  # characters of a reason in a table
GAPS = 15  # rows of the list of gaps


def page(lines: Sequence[Line]) -> str:
    lines = sorted({line["task"]: line for line in lines}.values(), key=_place)
    judged = [x for x in lines if x["verdict"] != "not judged"]
    parts = [
        "# What published speedups are worth\n", *_conditions(lines), *_counts(lines), *_speedups(judged),
        *_kernels(judged), *_faults(judged), *_gaps(judged),
        "## Every solution\n", table(lines), "",
        *_listed("Not judged", [x for x in lines if x["verdict"] == "not judged"]),
    ]  # fmt: skip
    return "\n".join(parts).rstrip() + "\n"


def table(lines: Sequence[Line]) -> str:
    rows = [
        "| task | claimed | judged, over eager | over the best baseline | verdict | label | why |",
        "|---|---:|---:|---:|---|---|---|",
    ]
    for x in lines:
        why = _fault(x) if x["verdict"] != "correct" else x.get("label_reason", "")
        rows.append(
            f"| {x['task']} | {_times(x['claimed'])} | {_interval(x, 'eager')} | {_interval(x, 'best')} "
            f"| {x['verdict']} | {x.get('label', '')} | {_short(why)} |"
        )
    return "\n".join(rows)


def _conditions(lines: Sequence[Line]) -> list[str]:
    def named(key: str) -> str:
        return ", ".join(sorted({str(x[key]) for x in lines if x.get(key)})) or "unknown"

    baselines = ", ".join(dict.fromkeys(name for x in lines for name in x.get("baselines", ())))
    totals = next((x["totals"] for x in lines if "totals" in x), None)
    of = (
        f" of the {totals['with_code']} that its {totals['entries']} entries hold ({totals['with_kernel']} of them "
        "with a kernel in the source)" if totals else ""
    )  # fmt: skip
    timing = (
        f"Baselines: {baselines}, each in a process of its own; caches are cold, inputs fresh, the outputs of timed calls checked; "
        "intervals are at 95%. *The best baseline* is the fastest of them on that task."
        if baselines else "They were not timed."
    )  # fmt: skip
    driver = f" (driver {named('driver')}, {named('cpu')})" if any(x.get("driver") for x in lines) else ""
    text = [
        f"{len(lines)} solutions{of} of a public release, `{named('release')}` of CUDA-L1 (Li et al. 2025, arXiv:2507.14111; "
        "github.com/deepreinforce-ai/CUDA-L1), each a `ModelNew` with the speedup over eager that was published with it, judged by "
        "`lab/third_party.py`. This page is written from its lines by `lab/third_party_report.py`.\n",
        f"Device: {named('hardware')}{driver}, torch {named('torch')}, seed {named('seed')}. {timing}\n",
        "A gap between claim and judgement is not by itself a wrong claim: claims were made on another machine (the release "
        "names its files by GPU), with another torch and the release's own way of timing. What is wrong is wrong by this judge's rules: an fp64 oracle whose "
        "budget comes from the reference's own error, sign-mixed and other inputs, other shapes; they are stricter than the check that "
        "the release was made for. The same rules pass reorderings of a sum.\n",
    ]
    lanes = max((x.get("lanes", 1) for x in lines), default=1)
    if lanes > 1:
        text.append(
            f"Up to {lanes} were judged at a time on one device; while one was timed against the baselines, the others were stopped.\n"
        )
    if any(ratio[1] == 0 for x in lines for ratio in x.get("speedup", {}).values()):
        text.append("A lower end of 0.00 says that the machine was too busy to tell.\n")
    if any(x.get("device") == "cpu" for x in lines):
        text.append(
            "Shapes are reduced by rule (`benchmarks/shrunk_task.py`) and solutions that need a GPU left out. On this device "
            "speedups say nothing of the claims: only verdicts and labels count.\n"
        )
    return text


def _counts(lines: Sequence[Line]) -> list[str]:
    labels = [name for name in LABELS if any(x.get("label", "") == name for x in lines)]
    rows = [
        "## Verdicts and labels\n",
        f"| verdict | {' | '.join(name or 'no label' for name in labels)} | together |",
        "|---|" + "---:|" * (len(labels) + 1),
    ]
    for verdict in VERDICTS:
        found = Counter(x.get("label", "") for x in lines if x["verdict"] == verdict)
        rows.append(f"| {verdict} | {' | '.join(str(found[n]) for n in labels)} | {found.total()} |")
    quarantined = sum("quarantined" in x.get("labels", ()) for x in lines)
    narrow = sum("specialised" in x.get("labels", ()) for x in lines if x["verdict"] == "correct")
    return [
        *rows, "",
        "*kernel*: its own compiled code does the work; *algorithmic*: fewer operations than the reference; *library*: other library "
        "calls; *none*: the reference's own operations. *Incorrect*: wrong values or no result; *invalid*: not a "
        f"measurement (forged, tampered with, clocks that disagree). {quarantined} of the {len(lines)} are on tasks on which a wrong answer "
        f"can pass. {narrow} of the correct ones are specialised: they raise an error at other shapes.\n",
    ]  # fmt: skip


def _speedups(judged: Sequence[Line]) -> list[str]:
    timed = [x for x in judged if {"eager", "best"} <= x.get("speedup", {}).keys() and x["claimed"]]
    if not timed:
        return ["## Claimed and judged\n", "None was both correct and timed.\n"]
    columns: list[tuple[str, Callable[[Line], float]]] = [
        ("claimed, over eager", lambda x: x["claimed"]),
        ("judged, over eager", lambda x: x["speedup"]["eager"][0]),
        ("judged, over the best baseline", lambda x: x["speedup"]["best"][0]),
    ]
    both = [x for x in timed if x.get("claimed_compile")]
    if len(both) == len(timed):
        columns.insert(
            1,
            (
                "claimed, over the better of eager and torch.compile",
                lambda x: min(x["claimed"], x["claimed_compile"]),
            ),
        )
    groups = [("all of them", timed)]
    groups += [(f"label *{n}*", g) for n in LABELS[:4] if (g := [x for x in timed if x["label"] == n])]
    rows = [
        "## Claimed and judged, over the same solutions\n",
        f"The {len(timed)} that are correct and were timed.\n",
        f"| solutions | number | {' | '.join(f'{n}: geomean (median)' for n, _ in columns)} |",
        "|---|---:|" + "---:|" * len(columns),
    ]
    for name, group in groups:
        cells = (
            f"{geometric_mean(v):.2f}× ({median(v):.2f}×)"
            for v in ([f(x) for x in group] for _, f in columns)
        )
        rows.append(f"| {name} | {len(group)} | {' | '.join(cells)} |")
    return [*rows, "", _wins(judged, timed)]


def _wins(judged: Sequence[Line], timed: Sequence[Line]) -> str:
    eager, best = ([x for x in timed if x["speedup"][name][1] > 1] for name in ("eager", "best"))
    slower = sum(x["speedup"]["best"][2] < 1 for x in timed)
    kernels = sum(x["label"] == "kernel" for x in best)
    return (
        f"Of the {len(judged)} judged, {len(eager)} are correct and faster than eager by the lower end of the interval, {len(best)} faster than the "
        f"best baseline, {kernels} of these by a kernel of their own; {slower} are correct and slower than the best baseline by the upper end.\n"
    )


def _kernels(judged: Sequence[Line]) -> list[str]:
    having = [x for x in judged if x["kernel_in_source"]]
    work = [x for x in judged if x.get("label") == "kernel"]
    idle = [x for x in having if x["verdict"] == "correct" and x.get("label") != "kernel"]
    return [
        "## Kernels\n",
        f"{len(having)} of the {len(judged)} judged have a kernel in their source (`load_inline`, `triton.jit` or `__global__`); "
        f"in {len(work)} it does the work, as the trace of a call shows. {len(idle)} have one, are correct, and owe their result to something "
        f"else{': ' + ', '.join(x['task'] for x in idle) if idle else ''}.\n",
    ]


def _faults(judged: Sequence[Line]) -> list[str]:
    found = [x for x in judged if x["verdict"] in ("incorrect", "invalid")]
    rules = Counter(x.get("rule") or "unknown" for x in found)
    counts = ", ".join(f"{escape(rule)} {n}" for rule, n in rules.most_common())
    lines = _listed("Found wrong, or not a measurement", found)
    return [
        lines[0],
        f"{len(found)} of {len(judged)}{', by rule: ' + counts if counts else ''}.\n",
        *lines[1:],
    ]


def _gaps(judged: Sequence[Line]) -> list[str]:
    timed = [x for x in judged if "eager" in x.get("speedup", {}) and x["claimed"]]
    wide = sorted(timed, key=lambda x: x["speedup"]["eager"][0] / x["claimed"])[:GAPS]
    rows = [
        f"- {x['task']}: {_times(x['claimed'])} claimed, {_interval(x, 'eager')} over eager judged"
        f" ({x['claimed'] / x['speedup']['eager'][0]:.1f} times less); {x['label']}: {_short(x.get('label_reason', ''))}"
        for x in wide if x["claimed"] > x["speedup"]["eager"][2]
    ]  # fmt: skip
    more = sum(x["claimed"] < x["speedup"]["eager"][1] for x in timed)
    return [
        "## The largest gaps\n",
        f"Over eager, among those that are correct; {more} of {len(timed)} do better here than was claimed.\n",
        *(rows or ["None claims more than was found."]), "",
    ]  # fmt: skip


def _listed(title: str, lines: Sequence[Line]) -> list[str]:
    rows = [f"- {x['task']} ({_times(x['claimed'])} claimed): {_short(_fault(x))}" for x in lines]
    return [f"## {title}\n", *(rows or ["None."]), ""]


def _fault(line: Line) -> str:
    """Why it was found wrong, or was not judged: the first of its reasons."""
    return str(line.get("reason", "")).split("; ")[0]


def _interval(line: Line, baseline: str) -> str:
    ratio = line.get("speedup", {}).get(baseline)
    return f"{ratio[0]:.2f}× [{ratio[1]:.2f}, {ratio[2]:.2f}]" if ratio else "–"


def _times(claimed: float | None) -> str:
    return f"{claimed:.2f}×" if claimed else "–"


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return escape(flat if len(flat) <= SHORT else flat[: SHORT - 1] + "…")


def _place(line: Line) -> tuple[int, int]:
    level, _, number = line["task"].partition("/")
    return int(level), int(number)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lines", type=Path, nargs="+", help="files that third_party.py wrote")
    parser.add_argument("--out", type=Path, help="print it when not given")
    options = parser.parse_args()
    text = page([line for file in options.lines for line in known_lines(file)])
    if options.out:
        options.out.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()

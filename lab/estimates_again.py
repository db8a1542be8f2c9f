"""How well screening's estimates foretell the judge's times, by the rule that they were made with and by the one of today.

In: rows of `benchmarks/inner_loop.py` on a GPU: of each judged candidate they hold its units' times alone, the estimate and the judge's time. Out: a table, and the
median of how far each rule is off. The old rule is known (4 µs more for each unit, ATen's part scaled to eager mode), so that ATen's part can be taken out of an estimate;
today's scales it to the captured reference and takes a unit for `Hardware.in_candidate_us`. Rows of searches after the rule changed say nothing here.

    python lab/estimates_again.py results/h200/inner_loop_gather.jsonl …
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import median
from typing import Any

from warpsmith.hardware import H200

OLD_CALL_US = 4.0


def main(files: list[str]) -> int:
    rows = [row for file in files for row in map(json.loads, Path(file).read_text().splitlines())]
    off: dict[str, list[float]] = {"before": [], "now": []}
    print("| task | units | judged, µs | estimate before | now |\n|---|---|---|---|---|")
    for row in rows:
        baselines = (row["summary"] or {}).get("baselines", {})
        for verdict in row["verdicts"] or []:
            if not {"measured_us", "units"} <= set(verdict) or not {"eager", "cuda-graph"} <= set(baselines):
                continue
            now, judged = estimate_now(verdict, baselines), verdict["measured_us"]
            off["before"].append(verdict["estimate_us"] / judged)
            off["now"].append(now / judged)
            print(
                f"| {row['task']} | {len(verdict['units'])} | {judged:.0f} | {verdict['estimate_us']:.0f} | {now:.0f} |"
            )
    for rule, ratios in off.items() if off["now"] else ():
        wrong = median(max(r, 1 / r) for r in ratios)
        print(
            f"\n{rule}: off by a factor of {wrong:.2f} in the median of {len(ratios)}, {median(ratios):.2f} of the judge's time"
        )
    return 0


def estimate_now(verdict: dict[str, Any], baselines: dict[str, float]) -> float:
    alone = [us for _, _, us in verdict["units"]]
    aten_us = verdict["estimate_us"] - sum(alone) - OLD_CALL_US * len(alone)
    scale = min(baselines["eager"], baselines["cuda-graph"]) / baselines["eager"]
    return sum(map(H200.in_candidate_us, alone)) + max(aten_us, 0.0) * scale


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

"""A suite on up to 1,000 GPUs, simulated from measured times: where driver, archive and network end.

    python benchmarks/scale_simulation.py measure --out results/cluster/driver_costs.json     # on this machine, two minutes
    python benchmarks/scale_simulation.py simulate --out results/cluster/scale.json           # also writes scale.md beside it

Measured: how long runs take by stage, how many lines they tell, how many of them win (searches on H100s: `results/h100/inner_loop_*.jsonl`);
what an event, a snapshot and a run cost the driver (`scale_costs.py`). Simulated (SimPy): each GPU plays one run after the other, tells lines while it does, sends a
snapshot every 30 seconds and the run at the end; a win is judged again by another worker. The driver handles one event at a time, as it is written. Not in it: nodes that
are lost, the network's own delays, Ray's limits, workers that start.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
from collections.abc import Generator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import simpy
from json_lines import known_lines

ROOT = Path(__file__).resolve().parents[1]
SEARCHES = ("first", "small", "blocks", "attention")
SET_UP = ("limit", "inputs", "profile", "admission", "baselines")
GPUS = (8, 64, 256, 512, 1024)
RUNS_A_GPU = 4
SNAPSHOT_S = 30.0
BUSY = 0.9  # of the driver, from which it is the limit


@dataclass(frozen=True)
class Search:
    """A measured search: seconds, candidates and lines."""

    loading: float
    set_up: float
    searching: float
    confirmation: float
    results: int
    lines: int
    wins: bool

    @property
    def seconds(self) -> float:
        return self.loading + self.set_up + self.searching + self.confirmation


def read_searches() -> list[Search]:
    """Read the searches that ended with a verdict."""
    searches = []
    for name in SEARCHES:
        for row in known_lines(ROOT / "results" / "h100" / f"inner_loop_{name}.jsonl"):
            summary = row.get("summary") or {}
            stages = summary.get("seconds_by_stage", {})
            if summary.get("status") not in ("win", "no-win"):
                continue
            searching = sum(stages.get(s, 0.0) for s in ("screening", "judging", "proposing"))
            set_up = sum(stages.get(s, 0.0) for s in SET_UP)
            results = summary["evaluations"] + summary["screened"]
            searches.append(
                Search(
                    row["loaded_s"], set_up, searching, stages["confirmation"], results, len(row["log"]), summary["status"] == "win",
                )
            )  # fmt: skip
    return searches


@dataclass(frozen=True)
class Costs:
    """What the driver pays. `batched`: all that was told is heard in one turn of its loop, lines come twice a second at most, and what
    arrives is checked by processes beside it.
    """

    turn_s: float
    read_a_result_s: float
    keep_a_result_s: float
    bytes_a_result: float
    batched: bool

    @classmethod
    def of(cls, measured: dict[str, Any], gpus: int, batched: bool) -> Costs:
        run = measured["run"]
        turn = interpolate(measured["loop_s"], gpus) + interpolate(measured["wait_s"], gpus)
        read_s = 0.0 if batched else run["read_s"]
        return cls(
            turn, read_s / run["results"], run["keep_s"]["filled"] / run["results"], run["bytes"] / run["results"], batched,
        )  # fmt: skip


def interpolate(table: dict[str, float], count: int) -> float:
    """Read a table of measured counts between two of its rows, or along the first or last of them."""
    points = sorted((int(n), seconds) for n, seconds in table.items())
    for (low, at_low), (high, at_high) in pairwise(points):
        if count <= high:
            return max(0.0, at_low + (at_high - at_low) * (count - low) / (high - low))
    return points[-1][1] * count / points[-1][0]


@dataclass
class Suite:
    """What happened so far."""

    left: int
    busy_s: float = 0.0  # of all GPUs
    driver_s: float = 0.0
    bytes: float = 0.0
    waits: list[float] = field(default_factory=list)  # of a worker that has ended its run, for the next one
    claims: list[Search] = field(default_factory=list)


class Simulation:
    def __init__(self, costs: Costs, searches: list[Search], gpus: int, seed: int) -> None:
        self.env, self.costs, self.searches = simpy.Environment(), costs, searches
        self.chance, self.gpus = random.Random(seed), gpus
        self.driver = simpy.Resource(self.env)
        self.suite = Suite(gpus * RUNS_A_GPU)

    def run(self) -> dict[str, float]:
        workers = [self.env.process(self._work()) for _ in range(self.gpus)]
        self.env.run(simpy.AllOf(self.env, workers))
        seconds, suite = self.env.now, self.suite
        return {
            "gpus": self.gpus,
            "runs": self.gpus * RUNS_A_GPU,
            "hours": seconds / 3600,
            "gpu_use": suite.busy_s / (seconds * self.gpus),
            "driver_use": suite.driver_s / seconds,
            "wait_median_s": statistics.median(suite.waits),
            "wait_p95_s": statistics.quantiles(suite.waits, n=20)[-1],
            "mb_a_second": suite.bytes / seconds / 1e6,
            "runs_an_hour": self.gpus * RUNS_A_GPU * 3600 / seconds,
        }

    def _work(self) -> Generator[Any, Any, None]:
        """One GPU. Runs that are told of late do not hold it, but the next one comes from the driver."""
        yield self.env.timeout(self.chance.uniform(0, 30))  # workers do not join all at once
        while self.suite.left or self.suite.claims:
            if self.suite.claims:
                claim = self.suite.claims.pop()
                yield from self._play(
                    claim.set_up + claim.confirmation, claim.lines // 2, 0, self.costs.keep_a_result_s
                )
                continue
            self.suite.left -= 1
            search = self.chance.choice(self.searches)
            cost = search.results * (self.costs.read_a_result_s + self.costs.keep_a_result_s)
            yield from self._play(search.seconds, search.lines, search.results, cost)
            if search.wins:
                self.suite.claims.append(search)

    def _play(self, seconds: float, lines: int, results: int, cost: float) -> Generator[Any, Any, None]:
        self.suite.busy_s += seconds
        self.env.process(self._tell(seconds, lines, results))
        yield self.env.timeout(seconds)
        ended = self.env.now
        yield from self._serve(cost + self.costs.turn_s, results)
        self.suite.waits.append(self.env.now - ended)

    def _tell(self, seconds: float, lines: int, results: int) -> Generator[Any, Any, None]:
        """Lines evenly over the run, and snapshots of what there is by then."""
        count = min(lines, int(seconds * 2)) if self.costs.batched else lines
        times = sorted(
            [(seconds * (n + 1) / (count + 1), 0.0) for n in range(count)]
            + [(t, t / seconds) for t in (SNAPSHOT_S * n for n in range(1, int(seconds / SNAPSHOT_S) + 1))]
        )
        for (at, share), before in zip(times, [0.0, *(t for t, _ in times)], strict=False):
            yield self.env.timeout(at - before)
            some = results * share
            self.env.process(
                self._serve(self._turn() + some * self.costs.read_a_result_s * bool(share), some)
            )

    def _turn(self) -> float:
        """What a line costs: a turn of the loop, or its share of one that hears all who wait."""
        return self.costs.turn_s / (1 + len(self.driver.queue)) if self.costs.batched else self.costs.turn_s

    def _serve(self, seconds: float, results: float) -> Generator[Any, Any, None]:
        with self.driver.request() as mine:
            yield mine
            self.suite.driver_s += seconds
            self.suite.bytes += results * self.costs.bytes_a_result
            yield self.env.timeout(seconds)


def simulate(measured: dict[str, Any], seed: int) -> dict[str, Any]:
    searches = read_searches()
    rows = []
    for batched in (False, True):
        for gpus in GPUS:
            row = Simulation(Costs.of(measured, gpus, batched), searches, gpus, seed).run()
            rows.append(
                {"driver": "batched" if batched else "as it is"} | {k: round(v, 4) for k, v in row.items()}
            )
            print(rows[-1], flush=True)
    typical = {
        "searches": len(searches),
        "seconds": statistics.mean(s.seconds for s in searches),
        "results": statistics.mean(s.results for s in searches),
        "lines": statistics.mean(s.lines for s in searches),
        "wins": statistics.mean(s.wins for s in searches),
    }
    return {"measured": measured, "searches": typical, "rows": rows, "seed": seed}


def write_page(record: dict[str, Any]) -> str:
    """A page of the rows."""
    run, typical = record["measured"]["run"], record["searches"]
    head = "| driver | GPUs | runs an hour | GPUs busy | driver busy | a worker waits, median | p95 | MB/s to the driver |\n|---|---|---|---|---|---|---|---|\n"
    rows = "".join(
        f"| {r['driver']} | {r['gpus']} | {r['runs_an_hour']:,.0f} | {r['gpu_use']:.0%} | {r['driver_use']:.0%} | {r['wait_median_s']:.2f} s "
        f"| {r['wait_p95_s']:.2f} s | {r['mb_a_second']:.2f} |\n"
        for r in record["rows"]
    )
    loops = ", ".join(f"{float(s) * 1e3:.2f} ms at {n}" for n, s in record["measured"]["loop_s"].items())
    waits = ", ".join(f"{float(s) * 1e3:.2f} ms at {n}" for n, s in record["measured"]["wait_s"].items())
    return f"""# A suite on many GPUs, simulated

`python benchmarks/scale_simulation.py measure --out results/cluster/driver_costs.json`, then `simulate --out results/cluster/scale.json`, seed {record["seed"]}.
Simulated, not run: no cluster of this size was there. {RUNS_A_GPU} runs a GPU.

{head}{rows}
**Measured on H100s** (`results/h100/inner_loop_*.jsonl`): {typical["searches"]} searches, {typical["seconds"]:.0f} s, {typical["results"]:.0f} results and {typical["lines"]:.0f} lines each, {typical["wins"]:.0%} win.

**Measured here** ({record["measured"]["machine"]["cpu"]}, {record["measured"]["machine"]["cores"]} cores): a run of {run["results"]} results has {run["bytes"] / 1e3:.0f} kB, is checked in {run["read_s"] * 1e3:.0f} ms, kept in
{run["keep_s"]["empty"] * 1e3:.0f} ms (empty archive) or {run["keep_s"]["filled"] * 1e3:.0f} ms ({run["filled_with"]:,} results). A turn of the driver's loop: {loops} workers. Ray's answer which of the streams has something: {waits}.

*Batched* is not built: all who wait are heard in one turn, a worker's lines come twice a second at most, and processes beside the driver check what arrives.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("measure", "simulate"))
    parser.add_argument("--costs", type=Path, default=ROOT / "results" / "cluster" / "driver_costs.json")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    if options.what == "measure":
        from scale_costs import measure_costs

        record = measure_costs()
    else:
        record = simulate(json.loads(options.costs.read_text()), options.seed)
        options.out.with_suffix(".md").write_text(write_page(record))
    options.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Training with kernels: two small models, a step measured beside eager mode and torch.compile, and 200 steps of training compared.

    python benchmarks/training.py results/cpu/training.json --time 4m
    python benchmarks/training.py results/cpu/training.json --page results/cpu/training.md

Each model is optimized by `warpsmith.optimize_training`. Then it is trained for 200 steps of SGD from the same weights on the same batches four
times eagerly (as it is, twice with rounding at random, in float64) and once with the kernels; the loss of each step must miss the
float64 loss by no more than the judge's budget for what rounding alone does. Where no half of a step runs kernels, there is nothing
to compare, and the row says so.
"""

from __future__ import annotations

import argparse
import copy
import json
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from training_models import MODELS

import warpsmith
from warpsmith.composition.outputs import collect_outputs
from warpsmith.composition.parity import find_truth
from warpsmith.machine import describe
from warpsmith.records.intervals import describe_ratio

STEPS, RATE, SEED = 200, 0.05, 0


def draw(name: str, seed: int, device: str) -> Iterator[tuple[Any, ...]]:
    """Draw batches, the same for a seed on every device."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield tuple(part.to(device) for part in MODELS[name].draw(generator))


def train(model: torch.nn.Module, name: str, steps: int) -> list[float]:
    """Train from the weights that it has, and give these back; return the losses."""
    state = copy.deepcopy(model.state_dict())
    batches = draw(name, SEED, next(model.parameters()).device.type)
    optimizer = torch.optim.SGD(model.parameters(), RATE)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(*next(batches))
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    optimizer.zero_grad()
    model.load_state_dict(state)
    return losses


def measure(name: str, time: str, steps: int, cache: Path | None, device: str) -> dict[str, Any]:
    """Optimize one model and train it."""
    torch.manual_seed(SEED)
    model = MODELS[name]().to(device)
    example = next(draw(name, SEED + 1, device))
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "archive": Path(folder) / "archive.db",
            "baselines": ("eager",),
            **({"cache": cache} if cache else {}),
        }
        config = warpsmith.Config.load(settings)
        fast = warpsmith.optimize_training(model, example, time=time, seed=SEED, config=config)
        result = fast.result
        assert result is not None
        row = result.model_dump(mode="json", exclude={"summaries"})
        row |= {
            "model": name, "parameters": sum(p.numel() for p in model.parameters()), "report": fast.report().splitlines(),
            "halves": {d: s.model_dump(mode="json", include={"status", "best", "evaluations", "seconds"}) for d, s in result.summaries.items()},
        }  # fmt: skip
        if result.directions:
            row["loop"] = compare_loops(model, fast, name, steps)
    return row


def compare_loops(model: torch.nn.Module, fast: torch.nn.Module, name: str, steps: int) -> dict[str, Any]:
    """Train eagerly and with kernels: the losses, and the worst share of the error budget."""

    def run(trained: torch.nn.Module) -> list[float]:
        return train(trained, name, steps)

    truth = find_truth(run, model, SEED)
    parity = truth.compare(collect_outputs(run, fast, SEED))
    eager, kernels = run(model), run(fast)
    return {
        "steps": steps, "ok": parity.ok, "share_of_budget": parity.error, "float64": parity.oracle, "says_nothing": len(truth.list_chaos()),
        "compared": len(truth.native), "first_loss": eager[0], "last_loss_eager": eager[-1], "last_loss_kernels": kernels[-1],
        "largest_difference": max(abs(a - b) for a, b in zip(eager, kernels, strict=True)),
    }  # fmt: skip


def write_page(report: dict[str, Any]) -> str:
    """Write the outcome as a page."""
    lines = [
        "# Training with kernels",
        "",
        f"{report['hardware']}, torch {report['torch']}, {report['threads']} threads, {report['date']}. "
        f"Made by `{report['command']}`; {report['conditions']}.",
        "",
        f"Step: gradients of all parameters for one batch, measured side by side. Loop: {report['steps']} steps of SGD from the same weights; "
        "the loss of each step against a float64 run, by the judge's budget for rounding.",
        "",
        "| model | step with kernels | torch.compile over eager | halves | gradients, share of budget | loop, share of budget | loss first → last (eager; kernels) |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in report["rows"]:
        speedup = ratio_text(row["speedup"])
        parity = f"{row['parity']['error']:.2f}" if row["parity"] else "-"
        loop = row.get("loop")
        compared = f"{loop['share_of_budget']:.2f} ({'within' if loop['ok'] else 'beyond'})" if loop else "-"
        losses = (
            f"{loop['first_loss']:.3f} → {loop['last_loss_eager']:.4f}; {loop['last_loss_kernels']:.4f}"
            if loop
            else "-"
        )
        lines.append(
            f"| {row['model']} ({row['parameters']:,} parameters) | {speedup} | {ratio_text(row['rival'])} | "
            f"{', '.join(row['directions']) or 'none'} | {parity} | {compared} | {losses} |"
        )
    lines.append("")
    for row in report["rows"]:
        lines += [f"**{row['model']}**", "", "```", *row["report"], "```", ""]
    return "\n".join(lines)


def ratio_text(ratio: dict[str, Any] | None) -> str:
    if ratio is None:
        return "no faster step"
    return f"{describe_ratio(warpsmith.records.Ratio(**ratio))} over {ratio['baseline']}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--time", default="4m", help="for the searches of each model")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--conditions", default="nothing else ran", help="what else the machine did")
    parser.add_argument("--page", type=Path, help="write the page of an outcome that is there")
    arguments = parser.parse_args()
    if arguments.page:
        arguments.page.write_text(write_page(json.loads(arguments.out.read_text())))
        return
    environment = describe(None, arguments.device)
    report = {
        "hardware": environment.hardware, "torch": environment.torch, "threads": environment.threads,
        "date": datetime.now(UTC).date().isoformat(), "steps": arguments.steps, "conditions": arguments.conditions,
        "command": f"python benchmarks/training.py {arguments.out} --time {arguments.time}",
        "rows": [measure(name, arguments.time, arguments.steps, arguments.cache, arguments.device) for name in arguments.models],
    }  # fmt: skip
    arguments.out.write_text(json.dumps(report, indent=1) + "\n")
    print(write_page(report))


if __name__ == "__main__":
    main()

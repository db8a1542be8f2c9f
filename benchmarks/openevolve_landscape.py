"""OpenEvolve on a landscape, with a script in the place of its language model: for `ablation.py`, in OpenEvolve's own interpreter.

    PYTHONPATH=src:benchmarks /tmp/oe/bin/python benchmarks/openevolve_landscape.py LANDSCAPE --seeds 5 --budget 80

A program is one candidate as JSON: which source covers which region, at which values. The script reads the program and its
inspirations from the prompt, and proposes one that was not proposed before: a neighbour of the program (another source, value,
region or cut of the graph), the program with parts of an inspiration, or a random one. Full rewrites, one evaluation an iteration,
OpenEvolve's own defaults otherwise. The last line of the output is, by seed, the true microseconds of each evaluation.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import math
import os
import random
import re
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from landscape_flat import Choices, Flat

from warpsmith.executors.landscape import LandscapeExecutor
from warpsmith.executors.landscape_file import read

PROGRAM = re.compile(r"```json\n(\[\[.*?\]\])\s*\n?```", re.DOTALL)
CURRENT = "# Current Program\n"
NEIGHBOUR, JOINED = 0.7, 0.9  # probabilities, added up, of what is proposed; the rest is random
TRIES = 60  # until something new is found
EVALUATOR = "from openevolve_landscape import evaluate\n"


@cache
def _opened(path: str) -> tuple[Flat, LandscapeExecutor]:
    """Of this process."""
    landscape = read(Path(path))
    return Flat(landscape), LandscapeExecutor(landscape, int(os.environ["LANDSCAPE_SEED"]))


def written(choices: Choices) -> str:
    return json.dumps([[site, source, list(values)] for site, (source, values) in sorted(choices.items())])


def choices_of(text: str) -> Choices:
    return {site: (source, tuple(values)) for site, source, values in json.loads(text)}


def evaluate(program_path: str) -> dict[str, float]:
    """What OpenEvolve calls: a noisy speedup as the score; the true time goes to the log."""
    flat, executor = _opened(os.environ["LANDSCAPE"])
    text = Path(program_path).read_text()
    speed = executor.draw_speedup(flat.placed(choices_of(text)))
    us = executor.asked[-1]
    with Path(os.environ["LANDSCAPE_LOG"]).open("a") as log:
        log.write(json.dumps([text, None if math.isinf(us) else us]) + "\n")
    return {"combined_score": speed}


class Script:
    """A language model as OpenEvolve's interface has it."""

    def __init__(self, model: Any) -> None:
        self._rng = random.Random(int(os.environ["LANDSCAPE_SEED"]))
        self.model, self.last_usage = "script", None

    async def generate(self, prompt: str, **_: Any) -> str:
        return self._answer(prompt)

    async def generate_with_context(
        self, system_message: str, messages: list[dict[str, str]], **_: Any
    ) -> str:
        return self._answer(messages[-1]["content"])

    def _answer(self, prompt: str) -> str:
        flat, _ = _opened(os.environ["LANDSCAPE"])
        log = Path(os.environ["LANDSCAPE_LOG"]).read_text().splitlines()
        known = {json.loads(line)[0].strip() for line in log}
        current = choices_of(PROGRAM.findall(prompt[prompt.rindex(CURRENT) :])[0])
        others = [choices_of(text) for text in PROGRAM.findall(prompt)]
        for _ in range(TRIES):
            proposed = written(self._proposed(flat, current, others))
            if proposed not in known:
                break
        return f"```json\n{proposed}\n```"

    def _proposed(self, flat: Flat, current: Choices, others: list[Choices]) -> Choices:
        kind = self._rng.random()
        if kind < NEIGHBOUR:
            return self._rng.choice(flat.neighbours(current, self._rng))
        if kind < JOINED and others:
            return joined(flat, current, self._rng.choice(others), self._rng)
        return flat.anywhere(self._rng)


def joined(flat: Flat, one: Choices, other: Choices, rng: random.Random) -> Choices:
    """Each region of either by the source of one of them, where regions do not overlap."""
    found: Choices = {}
    taken: set[str] = set()
    pairs = [*one.items(), *other.items()]
    rng.shuffle(pairs)
    for site, choice in pairs:
        nodes = set(flat.landscape.sites[site].nodes)
        if not nodes & taken:
            found[site] = choice
            taken |= nodes
    return found


def one_run(path: Path, seed: int, budget: int) -> list[float | None]:
    from openevolve.config import Config, LLMModelConfig
    from openevolve.controller import OpenEvolve

    with tempfile.TemporaryDirectory(prefix="openevolve-") as name:
        folder = Path(name)
        log, program, evaluator = folder / "log.jsonl", folder / "first.json", folder / "evaluator.py"
        log.touch()
        os.environ |= {"LANDSCAPE": str(path), "LANDSCAPE_SEED": str(seed), "LANDSCAPE_LOG": str(log)}
        _opened.cache_clear()
        flat, _ = _opened(str(path))
        program.write_text(written(flat.first()))
        evaluator.write_text(EVALUATOR)
        config = Config(max_iterations=budget, random_seed=seed, language="json", diff_based_evolution=False)
        config.log_level, config.checkpoint_interval = "ERROR", 10 * budget
        model = LLMModelConfig(name="script", init_client=Script, api_key="none", api_base="none")
        config.llm.models = config.llm.evaluator_models = [model]
        config.evaluator.cascade_evaluation = False
        config.evaluator.parallel_evaluations = 1
        evolution = OpenEvolve(str(program), str(evaluator), config, output_dir=str(folder / "out"))
        asyncio.run(evolution.run(iterations=budget - 1))
        return [json.loads(line)[1] for line in log.read_text().splitlines()][:budget]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("landscape", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--budget", type=int, default=80)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    runs = [one_run(options.landscape, seed, options.budget) for seed in range(options.seeds)]
    print(json.dumps(runs))
    return 0


if __name__ == "__main__":
    sys.modules["openevolve_landscape"] = sys.modules["__main__"]
    Script.__module__ = "openevolve_landscape"
    sys.exit(main())

"""Record the prompts of runs with the simulated author, for `benchmarks/prompt_measures.py`.

    python lab/author_prompts.py results/landscapes/cpu ARCHIVE [--seed 1] [--tokens 60000]

In: landscapes. Out: an archive with a run on each of a few tasks, every exchange in it. The author is `simulated_author.py`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import benchmarks_on_path  # noqa: F401
from author_ablation import library
from author_runs import sequence

TASKS = ("layernorm_gelu_residual", "softmax_masked_scores", "loss_distillation")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("landscapes", type=Path)
    parser.add_argument("folder", type=Path, help="archive.db is written there")
    parser.add_argument("--mistakes", type=Path, default=Path("results/llm/mistakes.jsonl"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=60_000)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    files = tuple(options.landscapes / f"{task}.jsonl.gz" for task in TASKS)
    landscapes, known = library(files, options.mistakes)
    for reached in sequence(landscapes, known, options.folder, options.seed, options.tokens):
        print(f"{reached.task}: {reached.exchanges} questions, {reached.tokens:,} tokens")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

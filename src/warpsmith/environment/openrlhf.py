"""OpenRLHF's reward function: `--remote_rm_url …/warpsmith/environment/openrlhf.py --label_key task`.

In: queries (a prompt and its answer), prompts, labels (names of tasks). Out: a dictionary of tensors as OpenRLHF reads it. OpenRLHF loads this file by
its path, so its imports are absolute.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warpsmith.environment.from_variables import find_scorer


def reward_func(
    queries: Sequence[str], prompts: Sequence[str], labels: Sequence[str], **options: Any
) -> dict[str, Any]:
    """Return the rewards of the answers, as "rewards" and as "scores", and the share of right ones as a metric."""
    import torch

    answers = [query.removeprefix(prompt) for query, prompt in zip(queries, prompts, strict=True)]
    rewards = find_scorer().score_many(labels, answers)
    tensor = torch.tensor([r.reward for r in rewards])
    right = torch.tensor([float(r.right) for r in rewards])
    return {"rewards": tensor, "scores": tensor, "extra_logs": {"right": right}}

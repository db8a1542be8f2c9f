"""verl's reward function: `custom_reward_function.path=…/warpsmith/environment/verl.py`, `custom_reward_function.name=compute_score`.

In: what verl hands over; `ground_truth` is the name of the task. Out: the reward. verl loads this file by its path, so its imports are absolute.
"""

from __future__ import annotations

from typing import Any

from warpsmith.environment.from_variables import find_scorer


def compute_score(data_source: str, solution_str: str, ground_truth: str, extra_info: Any = None) -> float:
    """Return the reward of a solution on the task that `ground_truth` names."""
    return find_scorer().score(ground_truth, solution_str).reward

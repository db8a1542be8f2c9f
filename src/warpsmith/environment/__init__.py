"""The judge as an environment: actions in, rewards with their parts and evidence out, for whoever trains a policy.

    from warpsmith.environment import Environment, Schedule

    with Environment("softmax_middle") as environment:      # Environment("softmax_middle", server=URL, token=TOKEN) judges elsewhere
        print(environment.observe())
        print(environment.score(text_of_a_file_with_ModelNew).reward)

`Scorer` is the one core: every adapter calls its `score_many`, which asks the authors' service for score jobs. The adapters are `gym`
(Gymnasium, schedules), `trl` (a reward function and an environment factory), `verl` and `openrlhf` (their reward functions); those of
OpenEnv and verifiers are packages of their own, in `integrations/`.
"""

from __future__ import annotations

from ..authoring.actions import Action, Schedule, ScheduleOffer
from ..authoring.observing import Observation, write_prompt
from ..rewards.reward import Reward, RewardMode, RewardWeights
from .completions import read_completion
from .scoring import Environment, Scorable, Scorer, make_scorer, open_author, score

__all__ = [
    "Action", "Environment", "Observation", "Reward", "RewardMode", "RewardWeights", "Schedule", "ScheduleOffer", "Scorable", "Scorer", "make_scorer",
    "open_author", "read_completion", "score", "write_prompt",
]  # fmt: skip

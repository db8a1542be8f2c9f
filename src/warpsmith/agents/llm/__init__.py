"""The language model's answers to the agents: prompts out, hypotheses, units, repairs and round plans in."""

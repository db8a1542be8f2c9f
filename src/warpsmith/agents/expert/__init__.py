"""The built-in expert: measured facts and a graph in; hypotheses and units out. No key, no network, no torch.

`planner` cuts a graph into regions, `ideas` ranks what `kernels` offers for them, `brain` answers for the agents.
"""

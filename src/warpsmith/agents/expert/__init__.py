"""The built-in expert: measured facts and a graph in; hypotheses and C++ units out. No key, no network, no
torch.

`lower` turns a region into a `Program` (loops, passes, expressions), `emit` writes a program as C++, a family
in `families` says which techniques fit, `planner` cuts a graph into regions and `brain` answers for the
agents.
"""

"""A user's workload, run once and looked at: which submodules ran and how long, and which of them can be tasks."""

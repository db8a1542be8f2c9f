"""Suite `core`: elementwise chains, reductions, softmax, norms and linear epilogues, at three shapes each.

Every file is a KernelBench-format task (`Model`, `get_inputs`, `get_init_inputs`) plus `VARIANTS`, one ragged
and one small, which override the file's own constants by name. Inputs are sign-mixed and parameters random,
so that no operation is without effect.
"""

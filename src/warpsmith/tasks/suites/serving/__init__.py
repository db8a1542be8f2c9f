"""Suite `serving`: blocks of models that people serve, in half precision, at the sizes and in the phase they are served.

Every file is a KernelBench-format task (`Model`, `get_inputs`, `get_init_inputs`) plus `VARIANTS`, one ragged and one small,
which override the file's own constants by name. Its first line says the model and the phase. Weights are random and drawn
to keep values near one, so that no operation is without effect.
"""

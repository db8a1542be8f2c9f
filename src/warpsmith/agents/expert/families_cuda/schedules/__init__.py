"""The schedules of CUDA kernels as data, one module an operator and kernel: tunables, shared memory, blocks at once, predicted time."""

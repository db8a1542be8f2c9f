"""The schedules of the CUDA kernels as data: tunables, shared memory, blocks at once, predicted time."""

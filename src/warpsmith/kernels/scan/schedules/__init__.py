"""The schedules of the CUDA kernels as data: tunables, and the values that suit a GPU and a shape."""

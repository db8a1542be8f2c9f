"""A `Program` → one readable CUDA C++ source over `warpsmith_cuda_states.h`. What a GPU does with it is in `source`."""

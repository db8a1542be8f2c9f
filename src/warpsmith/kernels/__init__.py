"""One folder an operator: the pattern that matches, its schedules, its C++ (`cpu`) and CUDA (`cuda`) kernels."""

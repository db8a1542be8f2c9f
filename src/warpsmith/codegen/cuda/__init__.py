"""What all CUDA kernels share: a source file with its launches, threads, lanes, chains."""

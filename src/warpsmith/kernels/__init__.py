"""The text of kernels: a folder for each operator, a folder for each target in it."""

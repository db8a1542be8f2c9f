"""The modules that `warpsmith demo` optimizes."""

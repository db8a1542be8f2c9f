"""Task suites as data: one folder a suite, one KernelBench-format file a task."""

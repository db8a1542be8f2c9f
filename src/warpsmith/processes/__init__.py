"""Child processes: workers over pipes, the sandbox they live in, the memory they share."""

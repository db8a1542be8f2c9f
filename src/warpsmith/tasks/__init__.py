"""A file, a module or a suite becomes a Task: exported, counted, cut into regions."""

"""Running a graph and a candidate in torch: the interpreter, the deployed callable, the drop-in module."""

"""The same operations in other calls, or another layout, of the library: no kernel of ours, on a GPU."""

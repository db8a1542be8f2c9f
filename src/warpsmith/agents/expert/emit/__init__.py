"""A `Program` and a technique → one readable C++ source."""

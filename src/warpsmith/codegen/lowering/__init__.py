"""ATen operations as expressions and loops: a graph region in, a `Program` out."""

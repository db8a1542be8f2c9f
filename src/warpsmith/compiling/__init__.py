"""Winners of the archive in a compiled model: the backend of `torch.compile`, and `warpsmith.compile`."""

"""Isolation: untrusted native code runs alone in a confined runner, on buffers that the supervisor owns."""

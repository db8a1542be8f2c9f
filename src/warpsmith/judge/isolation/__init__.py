"""Where untrusted native code runs alone: its buffers, the supervisor's side, and the confined native runners."""

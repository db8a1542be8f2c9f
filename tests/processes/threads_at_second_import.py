"""A module that starts a thread when a second process imports it: a trial is passed, and its server is not fit."""

import os
from pathlib import Path

file = Path(os.environ["SEEN_FILE"])
if file.exists():
    import threads_at_import  # noqa: F401
file.touch()

"""A module whose import takes longer than any test."""

import time

time.sleep(600)

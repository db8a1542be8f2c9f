"""Keeps searches in the experiment trackers that a team has already: TensorBoard, MLflow, Weights & Biases, or one that a package
announces as an entry point in `warpsmith.trackers`.
"""

from .tracker import Ending, TrackedRun, Tracker
from .tracking import Tracking, check_trackers, open_tracking

__all__ = ["Ending", "TrackedRun", "Tracker", "Tracking", "check_trackers", "open_tracking"]

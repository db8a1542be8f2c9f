"""Work ends at the limit, wherever it is, and only then."""

from __future__ import annotations

import signal
import time

import pytest

from warpsmith.bundles.time_limit import TimeIsUp, time_limit


def test_work_that_never_ends_is_ended() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(TimeIsUp), time_limit(0.05):
        time.sleep(30)
    assert signal.getsignal(signal.SIGALRM) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_work_that_ends_in_time_is_left_alone() -> None:
    with time_limit(30), time_limit(None):
        pass
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_an_alarm_before_the_limit_is_an_interrupt() -> None:
    """The program rings to raise an interrupt again that got lost: that is no time limit."""
    with pytest.raises(KeyboardInterrupt) as caught, time_limit(30):
        signal.raise_signal(signal.SIGALRM)
    assert not isinstance(caught.value, TimeIsUp)

"""Descriptors are waited for whatever their number."""

from __future__ import annotations

import fcntl
import os
import resource

from warpsmith.processes.waiting import allow_open_files, is_readable


def test_a_descriptor_beyond_what_select_knows() -> None:
    allow_open_files()
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert most > 1100
    reads, writes = os.pipe()
    high = fcntl.fcntl(reads, fcntl.F_DUPFD, 1090)
    try:
        assert not is_readable(high)
        assert not is_readable(high, 0.01)
        os.write(writes, b"x")
        assert is_readable(high)
        assert os.read(high, 1) == b"x"
        os.close(writes)
        assert is_readable(high, None)  # the other end is closed
    finally:
        os.close(reads)
        os.close(high)

"""Standard streams that are closed, that nobody reads, or that cannot write our signs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "ascii:strict"])
def test_what_an_encoding_lacks_is_written_as_a_question_mark(encoding: str) -> None:
    code = "from warpsmith.cli.streams import prepare_streams; prepare_streams(); print('2 × 3 ≤ 7 → ±')"
    env = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=env, check=True)
    assert done.stdout.decode(encoding.partition(":")[0]).startswith("2 ")
    assert b"? 7 ?" in done.stdout


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_a_closed_stream_is_like_dev_null(closed: str) -> None:
    script = f'"{sys.executable}" -m warpsmith knowledge softmax {closed}'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert bool(done.stdout) == ("1>&-" not in closed)


def test_a_broken_pipe_inside_of_the_program_is_not_silent() -> None:
    code = (
        "from warpsmith.cli.main import ending; error = BrokenPipeError(32, 'Broken pipe'); "
        "raise SystemExit(ending(error))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "Broken pipe" in done.stderr

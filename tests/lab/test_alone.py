"""Of several processes one measures, and the others stand still meanwhile."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

LAB = Path(__file__).parents[2] / "lab"
PARENT = f"""
import subprocess, sys, time
sys.path.insert(0, {str(LAB)!r})
from pathlib import Path
from alone import Alone, thaw
lock = Path(sys.argv[1])
CHILD = '''
import os, subprocess, sys, time
sys.path.insert(0, {str(LAB)!r})
from pathlib import Path
from alone import Alone
def say(word):  # in one piece: others write to the same pipe
    os.write(1, f"{{word}} {{time.monotonic()}}\\\\n".encode())
name, lock = sys.argv[1], Path(sys.argv[2])
alone = Alone(lock)
if name == "measures":
    time.sleep(0.4)
    alone.told("timing it")
    say("begin")
    time.sleep(0.6)
    if len(sys.argv) > 3:
        sys.exit(1)
    say("end")
    alone.told("done")
else:
    code = "import os, time\\\\nfor _ in range(100): os.write(1, b'tick %f\\\\\\\\n' % time.monotonic()); time.sleep(0.02)"
    subprocess.run([sys.executable, "-c", code])
'''
def start(*args):
    return subprocess.Popen([sys.executable, "-c", CHILD, *args])
ticks, measures = start("ticks", str(lock)), start("measures", str(lock), *sys.argv[2:])
measures.wait()
if measures.returncode:
    thaw(lock)
ticks.wait()
"""


def told(lock: Path, *more: str) -> list[tuple[str, float]]:
    command = [sys.executable, "-c", PARENT, str(lock), *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return [(name, float(at)) for name, at in (line.split() for line in done.stdout.splitlines())]


def test_the_others_and_what_they_started_stand_still(tmp_path: Path) -> None:
    lines = told(tmp_path / "lock")
    begin, end = (next(at for name, at in lines if name == wanted) for wanted in ("begin", "end"))
    ticks = [at for name, at in lines if name == "tick"]
    assert len(ticks) == 100
    assert min(ticks) < begin
    assert max(ticks) > end
    assert not [at for at in ticks if begin < at < end]


def test_they_go_on_after_one_that_was_killed_while_it_measured(tmp_path: Path) -> None:
    start = time.monotonic()
    assert sum(name == "tick" for name, _ in told(tmp_path / "lock", "dies")) == 100
    assert time.monotonic() - start < 30

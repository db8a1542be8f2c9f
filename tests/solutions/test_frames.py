"""The fence round the judge's frames, in a process of its own: an audit hook stays for good."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

SCRIPT = """
import sys
sys.path.insert(0, {source!r})
import gc, inspect, torch
from warpsmith.solutions.client import python_folders
from warpsmith.solutions.frames import guard
noted = guard(python_folders())
secret = 7
def attempt():
    {body}
code = compile("attempt()", "solution.py", "exec")
try:
    exec(code)
    print("passed", noted())
except RuntimeError as error:
    print("refused", noted())
"""


def outcome(tmp_path: Path, body: str, name: str = "script.py") -> list[str]:
    script = tmp_path / name
    source = str(Path(__file__).resolve().parents[2] / "src")
    script.write_text(SCRIPT.format(body=body, source=source))
    assert not str(script).startswith(sysconfig.get_paths()["stdlib"])
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    ("body", "event"),
    [
        ("sys._getframe(1).f_locals", "sys._getframe"),
        ("inspect.currentframe().f_back", "sys._getframe"),
        ("sys._current_frames()", "sys._current_frames"),
        ("gc.get_objects()", "gc.get_objects"),
        ("sys.settrace(print)", "sys.settrace"),
        ("try: 1 / 0\n    except ZeroDivisionError as error: error.__traceback__.tb_frame", "tb_frame"),
    ],
)
def test_who_looks_is_refused_and_named(tmp_path: Path, body: str, event: str) -> None:
    assert outcome(tmp_path, body) == ["refused", event]


@pytest.mark.parametrize("name", ["my_traceback.py", "my_inspect.py", "solution.py"])
def test_a_name_like_the_librarys_own_opens_nothing(tmp_path: Path, name: str) -> None:
    """Called from trusted code, as a solution is: the file that asks is its own, whatever its name."""
    body = "import re; re.sub('a', lambda found: str(sys._getframe(0)), 'a')"
    assert outcome(tmp_path, body, name) == ["refused", "sys._getframe"]


def test_what_torch_and_the_library_do_for_themselves_passes(tmp_path: Path) -> None:
    body = (
        "import collections, logging, warnings; collections.namedtuple('A', 'b'); warnings.warn('w'); "
        "logging.getLogger('x').warning('y'); gc.collect(); torch.ones(3).sum(); "
        "torch.jit.script(torch.nn.Linear(2, 2))"
    )
    assert outcome(tmp_path, body) == ["passed"]

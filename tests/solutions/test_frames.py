"""The fence round the judge's frames, in a process of its own for each attempt: an audit hook stays for good."""

from __future__ import annotations

import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from forks import Forks, forks_of

SCRIPT = """
import sys
sys.path.insert(0, {source!r})
import gc, inspect, torch
from warpsmith.processes.readable import python_folders
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


SOURCE = str(Path(__file__).resolve().parents[2] / "src")
IMPORTS = "import gc, inspect, torch, warpsmith.solutions.client, warpsmith.solutions.frames"
Outcome = Callable[..., list[str]]


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    with forks_of(IMPORTS, tmp_path_factory.mktemp("forks"), (SOURCE,)) as made:
        yield made


@pytest.fixture
def outcome(forks: Forks, tmp_path: Path) -> Outcome:
    """outcome(body, name) → what a script of that name says of this attempt."""

    def ran(body: str, name: str = "script.py") -> list[str]:
        script = tmp_path / name
        script.write_text(SCRIPT.format(body=body, source=SOURCE))
        assert not str(script).startswith(sysconfig.get_paths()["stdlib"])
        done = forks.run(script)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    return ran


@pytest.mark.parametrize(
    ("body", "event"),
    [
        ("sys._getframe(1).f_locals", "sys._getframe"),
        ("inspect.currentframe().f_back", "sys._getframe"),
        ("sys._current_frames()", "sys._current_frames"),
        ("gc.get_objects()", "gc.get_objects"),
        ("sys.settrace(print)", "sys.settrace"),
        ("import ctypes; ctypes.pythonapi.PyEval_GetFrame", "PyEval_GetFrame"),
        ("try: 1 / 0\n    except ZeroDivisionError as error: error.__traceback__.tb_frame", "tb_frame"),
    ],
)
def test_who_looks_is_refused_and_named(outcome: Outcome, body: str, event: str) -> None:
    assert outcome(body) == ["refused", event]


@pytest.mark.parametrize("name", ["my_traceback.py", "my_inspect.py", "solution.py"])
def test_a_name_like_the_librarys_own_opens_nothing(outcome: Outcome, name: str) -> None:
    """Called from trusted code, as a solution is: the file that asks is its own, whatever its name."""
    body = "import re; re.sub('a', lambda found: str(sys._getframe(0)), 'a')"
    assert outcome(body, name) == ["refused", "sys._getframe"]


def test_what_torch_and_the_library_do_for_themselves_passes(outcome: Outcome) -> None:
    body = (
        "import collections, logging, warnings; collections.namedtuple('A', 'b'); warnings.warn('w'); "
        "logging.getLogger('x').warning('y'); gc.collect(); torch.ones(3).sum(); "
        "torch.jit.script(torch.nn.Linear(2, 2))"
    )
    assert outcome(body) == ["passed"]


FAILS = "import traceback\n    try: 1 / 0\n    except ZeroDivisionError: "


@pytest.mark.parametrize(
    "call",
    ["traceback.format_exc()", "traceback.format_exc(limit=1)", "traceback.print_exc(file=sys.stderr)"],
)
def test_the_text_of_a_traceback_of_its_own_passes(outcome: Outcome, call: str) -> None:
    assert outcome(FAILS + call) == ["passed"]


@pytest.mark.parametrize(
    "call",
    [
        "list(traceback.walk_tb(sys.exc_info()[2]))",  # yields frames
        "traceback.StackSummary._extract_from_extended_frame_gen = lambda frames, **more: list(frames); traceback.format_exc()",
        "traceback.TracebackException = lambda kind, value, tb, **more: tb.tb_frame; traceback.format_exc()",
    ],
)
def test_a_way_through_the_traceback_module_to_frames_is_refused(outcome: Outcome, call: str) -> None:
    assert outcome(FAILS + call) == ["refused", "tb_frame"]

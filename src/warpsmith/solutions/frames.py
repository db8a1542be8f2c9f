"""Keeps a solution's own code from the frames and objects of the code that measures it.

In: folders whose code is trusted. Out: from `guard` on, whoever else asks the interpreter for a frame above its
own, for all objects or referrers, for a function of the interpreter through ctypes, or sets a tracer, gets an
error, and the attempt is noted. Audit hooks cannot be taken out again (PEP 578). They name no caller, so it is found by its file; code that is compiled under a trusted
file's name passes, as do natives: a fence, not a wall.
"""

from __future__ import annotations

import ctypes
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

EVENTS = frozenset({
    "sys._getframe", "sys._current_frames", "sys._current_exceptions", "sys.settrace", "sys.setprofile",
    "gc.get_objects", "gc.get_referrers", "gc.get_referents",
})  # fmt: skip
INTERPRETER = re.compile(r"_?Py[A-Z]\w*")  # functions of the interpreter itself, asked for through ctypes
ATTRIBUTES = frozenset({"tb_frame", "gi_frame", "cr_frame", "ag_frame"})
ASKING_FOR_OTHERS = frozenset({inspect.__file__, traceback.__file__, ctypes.__file__})
# They make text of a traceback and hand out no frame; nothing of the caller's runs in between.
TEXT_OF_TRACEBACK = frozenset({"format_exc", "print_exc", "format_exception", "print_exception"})


def guard(trusted: Sequence[str]) -> Callable[[], str]:
    """Returns a function that names the first attempt, empty when there was none."""
    folders = tuple(f"{Path(folder).resolve()}/" for folder in trusted) + tuple(f"{f}/" for f in trusted)
    noted: list[str] = []
    inside = False

    def hook(event: str, args: tuple[Any, ...]) -> None:
        nonlocal inside
        attribute = event == "object.__getattr__" and len(args) > 1 and args[1] in ATTRIBUTES
        interpreter = event == "ctypes.dlsym" and bool(INTERPRETER.fullmatch(str(args[1])))
        if inside or not (attribute or interpreter or event in EVENTS):
            return
        inside = True
        try:
            is_own = _asker(sys._getframe(1)).startswith((*folders, "<frozen "))
        finally:
            inside = False
        if not is_own:
            accessed = str(args[1]) if attribute or interpreter else event
            noted.append(accessed)
            raise RuntimeError(f"{accessed} is refused: a solution has no business with the judge's frames")

    sys.addaudithook(hook)
    return lambda: noted[0] if noted else ""


def _asker(frame: FrameType | None) -> str:
    """The file of the code that asks; not of the standard library's, when that asks for somebody."""
    text = False
    while frame is not None and frame.f_code.co_filename in ASKING_FOR_OTHERS:
        asking = frame.f_code
        text = asking.co_filename == traceback.__file__ and asking.co_name in TEXT_OF_TRACEBACK
        frame = frame.f_back
    if text:
        return traceback.__file__
    return frame.f_code.co_filename if frame is not None else ""

"""The exception tree. Each message is one line: what is wrong, and what to do. The CLI prints it and exits non-zero.

WarpsmithError                exit 1
├── UsageError                exit 2: bad flags, missing file, wrong configuration
├── TaskError                 exit 2: the task cannot be loaded, exported or run
├── ToolchainError            exit 3: no compiler, or it does not work
├── ArchiveError              exit 4: the archive cannot be opened, read or written
├── JudgeError                exit 5: a trusted process was lost or the disk is full
├── ModelError                exit 6: a language model cannot be reached, or refuses the key
├── OutOfTime                 exit 7: the time was over before a task was checked
└── Interrupted               exit 130: Ctrl-C; what was finished is in the archive
"""

from __future__ import annotations


class WarpsmithError(Exception):
    exit_code = 1


class UsageError(WarpsmithError):
    exit_code = 2


class TaskError(WarpsmithError):
    exit_code = 2


class ToolchainError(WarpsmithError):
    exit_code = 3


class ArchiveError(WarpsmithError):
    exit_code = 4


class JudgeError(WarpsmithError):
    exit_code = 5


class ModelError(WarpsmithError):
    exit_code = 6


class OutOfTime(WarpsmithError):
    exit_code = 7


class Interrupted(WarpsmithError):
    exit_code = 130


def make_error(kind: str, text: str, unknown: type[WarpsmithError] = JudgeError) -> WarpsmithError:
    """Make an error of the class so named, as another process reported it; an `unknown` where there is none."""
    named = globals().get(kind)
    is_error = isinstance(named, type) and issubclass(named, WarpsmithError)
    error: WarpsmithError = named(text) if is_error and named is not None else unknown(text)
    return error

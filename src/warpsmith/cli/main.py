"""The program: commands assembled, and every ending turned into one clear line and an exit code.

A WarpsmithError is its one line and its own code, Ctrl-C (or SIGTERM) is 130, a wrong flag is 2.
A reader of the output that has gone ends it silently with 141. Anything else is a bug: its traceback goes to a log file
that the one line names, and the code is 70 (EX_SOFTWARE of sysexits.h).
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer

from ..errors import WarpsmithError
from . import (
    authoring,
    bundle,
    capture,
    inspect,
    judge_files,
    knowledge,
    profile,
    results,
    run,
    serving,
    sharing,
    site,
    skills,
    ui,
)
from .streams import READER_GONE, drop_abandoned_streams, prepare_streams

BUG, INTERRUPTED = 70, 130
CLICK_ERROR: Any = typer.BadParameter.__mro__[2]  # typer carries its own copy of click's ClickException

app = typer.Typer(
    name="warpsmith", no_args_is_help=True, rich_markup_mode=None,
    help="Point it at a PyTorch module; get back a verified, faster one, and proof.",
)  # fmt: skip


def _version(wanted: bool) -> None:
    if wanted:
        inspect.version()
        raise typer.Exit


@app.callback()
def _program(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks (anywhere on the line).")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None: ...


for group in (
    run,
    judge_files,
    capture,
    results,
    sharing,
    site,
    skills,
    ui,
    profile,
    inspect,
    knowledge,
    bundle,
    authoring,
    serving,
):
    group.register(app)


AGAIN_SECONDS = 0.05  # until an interrupt that got lost is raised again


def main() -> None:
    """The console script `warpsmith`."""
    prepare_streams()
    arguments = [a for a in sys.argv[1:] if a != "--debug"]
    debug = len(arguments) < len(sys.argv) - 1
    stay_interruptible()
    try:
        code = app(arguments, prog_name="warpsmith", standalone_mode=False)
        sys.stdout.flush()
    except BaseException as error:  # noqa: BLE001 - the process boundary
        if debug:
            traceback.print_exc()
        code = ending(error)
    sys.exit(code if isinstance(code, int) else 0)


def ending(error: BaseException) -> int:
    """Say in one line how the program ended, and return its exit code."""
    if isinstance(error, WarpsmithError):
        return _say(str(error) or type(error).__name__, error.exit_code)
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        return _say("interrupted", INTERRUPTED)
    if type(error).__name__ == "NoArgsIsHelpError" and isinstance(error, CLICK_ERROR):
        print(error.format_message(), file=sys.stderr)  # nothing was asked for: the help, as it is laid out
        return 2
    if isinstance(error, CLICK_ERROR):
        return _say(f"{error.format_message()} (`--help` shows how)", 2)
    if _is_broken_pipe(error) and drop_abandoned_streams():
        return READER_GONE
    if isinstance(error, SystemExit | typer.Exit):
        code = getattr(error, "exit_code", None) or getattr(error, "code", None)
        return code if isinstance(code, int) else 0
    if isinstance(error, OSError) and error.errno is not None:
        return _say(f"{error.strerror}: {error.filename or 'input or output'}{_log_traceback(error)}", 1)
    return _say(f"this is a bug in warpsmith ({type(error).__name__}){_log_traceback(error)}", BUG)


def _is_broken_pipe(error: BaseException) -> bool:
    """Typer makes a broken pipe SystemExit(1)."""
    return isinstance(error, BrokenPipeError) or isinstance(error.__context__, BrokenPipeError)


def _say(text: str, code: int) -> int:
    print(f"warpsmith: {' '.join(text.split())}", file=sys.stderr)
    return code


def _log_traceback(error: BaseException) -> str:
    """Keep the traceback in a file; returns where it is, for the message."""
    name = f"crash-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    text = "".join(traceback.format_exception(error))
    for folder in (_cache_folder(), Path(tempfile.gettempdir())):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(f"warpsmith {' '.join(sys.argv[1:])}\n{text}", encoding="utf-8")
        except OSError:
            continue
        return f"; details in {folder / name}"
    return "; --debug shows details"


def _cache_folder() -> Path:
    from ..config import Config

    try:
        return Config.load().cache / "logs"
    except WarpsmithError:
        return Path(tempfile.gettempdir())


def stay_interruptible() -> None:
    """A terminated program ends like an interrupted one. Python drops an interrupt that arrives while an
    object is being destroyed or in a callback of C code: it is raised again a moment later.
    """

    def ignored(unraisable: sys.UnraisableHookArgs) -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS)
        else:
            sys.__unraisablehook__(unraisable)

    sys.unraisablehook = ignored
    for number in (signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt

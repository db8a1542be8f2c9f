"""Python programs as forks of one process that has imported what they need: each is a process of its own, as after a start,
but for the seconds that importing torch takes.

In: what to import, then programs and their arguments, one after the other. Out: how each ended, and what it wrote.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SERVER = """
import json, os, sys, traceback
sys.path[:0] = {path!r}
{imports}
for line in sys.stdin:
    asked = json.loads(line)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            for number, name in enumerate(("/dev/null", asked["out"], asked["err"])):
                os.dup2(os.open(name, os.O_RDWR | os.O_CREAT), number)
            os.environ.clear()
            os.environ.update(asked["environment"])
            sys.argv = asked["command"]
            program = open(sys.argv[0]).read()
            exec(compile(program, sys.argv[0], "exec"), {{"__name__": "__main__"}})
            code = 0
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Forks:
    def __init__(self, server: subprocess.Popen[str], folder: Path) -> None:
        self._server, self._folder = server, folder

    def run(self, program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """With the environment of now; an uncaught exception ends it with 1."""
        out, err = self._folder / "out", self._folder / "err"
        for file in (out, err):
            file.write_text("")
        command = [str(program), *arguments]
        asked = {"command": command, "environment": dict(os.environ), "out": str(out), "err": str(err)}
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        print(json.dumps(asked), file=self._server.stdin, flush=True)
        code = int(self._server.stdout.readline())
        return subprocess.CompletedProcess(command, code, out.read_text(), err.read_text())


@contextmanager
def forks_of(imports: str, folder: Path, path: tuple[str, ...] = ()) -> Iterator[Forks]:
    """`imports`: statements; `path`: put before `sys.path`; `folder`: an empty one."""
    server = folder / "server.py"
    server.write_text(SERVER.format(imports=imports, path=list(path)))
    with subprocess.Popen(
        [sys.executable, str(server)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Forks(process, folder)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(10) == 0

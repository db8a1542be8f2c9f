"""A throw-away PostgreSQL server for tests: its own data folder, a unix socket, no network, no password."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

UNPRIVILEGED = ("postgres", "nobody")  # the server refuses to run as root
ROOM = 4 << 30  # bytes: an empty database has eight million, and each process of the tests has a server
FOLDERS = (
    *sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True),
    *Path("/usr/pgsql").glob("*/bin"),
)


def memory() -> str | None:
    """A folder in memory, where a new database takes a quarter of the time; None where there is no room for many."""
    place = "/dev/shm"
    roomy = os.access(place, os.W_OK) and shutil.disk_usage(place).free > ROOM
    return place if roomy else None


def why_not() -> str:
    """Why there can be no server here; empty: there can."""
    if find_spec("psycopg") is None:
        return "psycopg is not installed (pip install 'warpsmith[postgres]')"
    if binary("initdb") is None:
        return "no PostgreSQL server is installed (apt-get install postgresql)"
    if os.getuid() == 0 and unprivileged() is None:
        return "PostgreSQL refuses to run as root, and there is no user postgres or nobody"
    return ""


def binary(name: str) -> str | None:
    places = os.pathsep.join([*map(str, FOLDERS), os.environ.get("PATH", "")])
    return shutil.which(name, path=places)


def unprivileged() -> pwd.struct_passwd | None:
    known = {user.pw_name: user for user in pwd.getpwall()}
    return next((known[name] for name in UNPRIVILEGED if name in known), None)


class Server:
    """`limit_bytes`: the largest file that the server may write, which it takes for a full disk."""

    def __init__(self, limit_bytes: int | None = None) -> None:
        # A short path: a socket's has 107 characters at most.
        self.folder = Path(tempfile.mkdtemp(prefix="ws-pg-", dir=memory()))
        self.limit_bytes = limit_bytes
        self.user = unprivileged() if os.getuid() == 0 else None
        if self.user is not None:
            os.chown(self.folder, self.user.pw_uid, self.user.pw_gid)
        self._run("initdb", "-D", "data", "-U", "ws", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-N",
                  "--wal-segsize=1")  # fmt: skip
        self.start()

    def start(self) -> None:
        options = f"-k {self.folder} -c listen_addresses='' -c max_connections=50 -c shared_buffers=16MB"
        self._run("pg_ctl", "-D", "data", "-w", "-l", "log", "-o", options, "start", limited=True)

    def stop(self, mode: str = "immediate") -> None:
        """ "immediate" ends every process of it at once, as a crash would."""
        self._run("pg_ctl", "-D", "data", "-w", "-m", mode, "stop")

    def close(self) -> None:
        try:
            self.stop()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def make_database(self, name: str) -> str:
        """The URL of a new, empty database."""
        self.sql(f'CREATE DATABASE "{name}" TEMPLATE template0')
        return self.url(name)

    def url(self, name: str) -> str:
        return f"postgresql://ws@/{name}?host={self.folder}"

    def sql(self, statement: str, name: str = "postgres") -> str:
        where = ("-h", str(self.folder), "-U", "ws", "-d", name)
        return self._run("psql", *where, "-qAtX", "-v", "ON_ERROR_STOP=1", "-c", statement)

    def _run(self, name: str, *arguments: str, limited: bool = False) -> str:
        path = binary(name)
        assert path is not None, f"{name} is missing"
        command = [path, *arguments]
        if limited and self.limit_bytes is not None:
            command = ["prlimit", f"--fsize={self.limit_bytes}", *command]
        user = {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []} if self.user else {}
        log = self.folder / "out"
        with log.open("w+") as out:  # no pipe: the server would hold it open
            done = subprocess.run(command, cwd=self.folder, stdout=out, stderr=out, timeout=60, **user)
            out.seek(0)
            text = out.read()
        assert done.returncode == 0, f"{name}: {text}"
        return text.strip()

"""Wheels of what Warpsmith needs, in the versions that are installed here, for the Python of another machine.

In: a version of Python, names of further packages. Out: a folder of wheels and `wheels.txt`, which lists them. torch and
NumPy, with all that they bring, are left out.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from ..errors import UsageError

THERE = ("torch", "numpy")  # on a machine with a GPU, with all that they bring
GLIBC = (34, 31, 28, 27, 24, 17, 12, 5)  # pip matches each exactly
MANYLINUX = (*(f"manylinux_2_{n}_x86_64" for n in GLIBC), "manylinux2014_x86_64", "manylinux1_x86_64")


def list_requirements(python: str, packages: Sequence[str] = ()) -> list[str]:
    """List `name==version` of what Warpsmith and `packages` need. Raises UsageError for what is not installed here."""
    markers = {
        "extra": "", "python_version": python, "python_full_version": f"{python}.0", "sys_platform": "linux",
    }  # fmt: skip
    versions: dict[str, str] = {}
    waiting = ["warpsmith", *packages]
    while waiting:
        name = waiting.pop()
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError as error:
            raise UsageError(f"{name} is not installed here: its version is not known") from error
        if name != "warpsmith":
            versions[name] = distribution.version
        for needed in map(Requirement, distribution.requires or ()):
            key = re.sub(r"[-_.]+", "-", needed.name).lower()
            applies = needed.marker is None or needed.marker.evaluate(markers)
            if applies and key not in (*versions, *THERE):
                waiting.append(key)
    return sorted(f"{name}=={version}" for name, version in versions.items())


def download_wheels(out: Path, python: str, packages: Sequence[str] = ()) -> None:
    """Fetch the wheels, unless they are there. Raises UsageError."""
    needed, listed = list_requirements(python, packages), out / "wheels.txt"
    text = "".join(f"{line}\n" for line in (f"python {python}", *needed))
    if listed.exists() and listed.read_text() == text:
        return
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    command = [
        sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "--implementation", "cp",
        "--python-version", python, *(f"--platform={p}" for p in MANYLINUX), "-d", str(out), *needed,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        errors = (x for x in done.stderr.splitlines() if x.startswith("ERROR"))
        raise UsageError(f"no wheels: {next(errors, done.stderr.strip())[:300]}")
    listed.write_text(text)

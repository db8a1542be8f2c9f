#!/usr/bin/env python3
"""The packages in `integrations/` that need environments of their own: their locks, and their tests.

    python scripts/integrations.py test [NAME…]     each in a virtual environment of its own, at the versions of its requirements.lock
    python scripts/integrations.py lock [NAME…]     write requirements.lock anew: the newest versions that its pyproject.toml allows

In: folders with a pyproject.toml. Out: exit code 0 where all pass. What warpsmith itself needs, torch above all, is taken from the environment
that this runs in, by a path file: it is gigabytes. Where both have a package, the integration's own version goes first.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "integrations"
LOCK = "requirements.lock"
HEADER = "# Written by `python scripts/integrations.py lock`. Warpsmith and what it needs are not in it.\n"
PATH_FILE = "shared.pth"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=("test", "lock"))
    parser.add_argument("names", nargs="*", help="folders in integrations/; all packages if none is named")
    parser.add_argument(
        "--venvs", type=Path, default=FOLDER / ".venvs", help="where the environments are kept"
    )
    options = parser.parse_args()
    names = options.names or list_packages()
    if unknown := sorted(set(names) - set(list_packages())):
        print(
            f"integrations: there is no package {unknown[0]}; there are {', '.join(list_packages())}",
            file=sys.stderr,
        )
        return 2
    if options.command == "lock":
        for name in names:
            (FOLDER / name / LOCK).write_text(resolve(name))
        return 0
    failed = [name for name in names if not test(name, options.venvs)]
    if failed:
        print(f"integrations: {', '.join(failed)} failed", file=sys.stderr)
    return 1 if failed else 0


def list_packages() -> list[str]:
    return sorted(file.parent.name for file in FOLDER.glob("*/pyproject.toml"))


def list_requirements(name: str) -> list[str]:
    """List what its pyproject.toml asks for, with its tests, without warpsmith."""
    project = tomllib.loads((FOLDER / name / "pyproject.toml").read_text())["project"]
    listed: list[str] = [*project["dependencies"], *project["optional-dependencies"]["test"]]
    return [r for r in listed if not r.startswith("warpsmith")]


def resolve(name: str) -> str:
    """Return the text of a lock: a version for everything that the package's requirements need."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--dry-run",
        "--ignore-installed",
        "--report",
        "-",
    ]
    answer = subprocess.run([*command, *list_requirements(name)], capture_output=True, text=True, check=True)
    report: dict[str, Any] = json.loads(answer.stdout)
    packages = [item["metadata"] for item in report["install"]]
    return HEADER + "".join(sorted(f"{p['name'].lower()}=={p['version']}\n" for p in packages))


def test(name: str, venvs: Path) -> bool:
    """Return whether its tests pass, at the versions of its lock."""
    python = open_venv(name, venvs)
    lock = FOLDER / name / LOCK
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", "-r", lock], check=True)
    paths = [str(ROOT / "src"), str(FOLDER / name / "src")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    print(f"integrations: {name}", flush=True)
    return (
        subprocess.run([python, "-m", "pytest"], cwd=FOLDER / name, env=environment, check=False).returncode
        == 0
    )


def open_venv(name: str, venvs: Path) -> Path:
    """Make the environment where it is missing; return its python."""
    folder = venvs / name
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True, symlinks=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (folder / "lib" / version / "site-packages" / PATH_FILE).write_text(sysconfig.get_path("purelib") + "\n")
    return python


if __name__ == "__main__":
    raise SystemExit(main())

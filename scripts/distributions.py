"""Builds the wheel and the sdist and checks them; `--try` also installs the wheel into an empty environment and runs the demo there.

In: a folder for the two files. Out: their names and sizes, or one line for each thing that is wrong with them and exit code 1. The build
starts from a copy of the sources: what an earlier build left behind gets into no wheel.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILT_FROM = ("pyproject.toml", "README.md", "LICENSE", "src")
LEFT_BEHIND = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.so")
BUILD = "import sys; from setuptools import build_meta; getattr(build_meta, sys.argv[1])(sys.argv[2])"
DEMO = ("demo", "--time", "10s", "--budget", "4")
DEMO_S = 900


def build(out: Path) -> tuple[Path, Path]:
    """Build sdist and wheel into `out`; return (sdist, wheel). Raises CalledProcessError with what setuptools said."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in BUILT_FROM:
            source, target = ROOT / name, Path(folder) / name
            shutil.copytree(source, target, ignore=LEFT_BEHIND) if source.is_dir() else shutil.copy(
                source, target
            )
        for kind in ("build_sdist", "build_wheel"):
            command = [sys.executable, "-c", BUILD, kind, str(out.resolve())]
            subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    (sdist,) = out.glob("warpsmith-*.tar.gz")
    (wheel,) = out.glob("warpsmith-*.whl")
    return sdist, wheel


def list_sources() -> set[str]:
    """List the files of the package, as they are called in a wheel."""
    files = (p.relative_to(ROOT / "src") for p in (ROOT / "src" / "warpsmith").rglob("*") if p.is_file())
    return {str(p) for p in files if "__pycache__" not in p.parts and p.suffix != ".so"}


def find_faults(names: Iterable[str], kind: str) -> list[str]:
    """Compare what a file holds with the package's sources: a line for each that is missing, or is not the package's."""
    held, sources = set(names), list_sources()
    missing = [f"the {kind} lacks {name}" for name in sorted(sources - held)]
    if kind == "sdist":  # the build's own files and the readme lie beside the package there
        return missing
    foreign = sorted(n for n in held - sources if ".dist-info/" not in n)
    return [*missing, *(f"the {kind} holds {name}, which is not the package's" for name in foreign)]


def check(sdist: Path, wheel: Path) -> list[str]:
    """Check contents, and metadata by twine; a line for each fault."""
    with zipfile.ZipFile(wheel) as archive:
        faults = find_faults(archive.namelist(), "wheel")
    with tarfile.open(sdist) as archive_:
        names = [name.partition("/")[2].removeprefix("src/") for name in archive_.getnames()]
        faults += find_faults(names, "sdist")
    told = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", str(sdist), str(wheel)],
        capture_output=True,
        text=True,
    )
    if told.returncode:
        faults.append(f"twine: {' '.join((told.stdout + told.stderr).split())}")
    return faults


def try_demo(wheel: Path, torch: str) -> int:
    """Install the wheel into an empty environment and run a short demo there, away from the checkout; return its exit code."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        subprocess.run([sys.executable, "-m", "venv", str(home / "venv")], check=True)
        python = str(home / "venv" / "bin" / "python")
        for what in (torch, str(wheel.resolve())):
            subprocess.run([python, "-m", "pip", "install", "--quiet", what], check=True)
        variables = {"WARPSMITH_CACHE": str(home / "cache"), "WARPSMITH_ARCHIVE": str(home / "archive.db")}
        program = [str(home / "venv" / "bin" / "warpsmith"), *DEMO]
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": folder, **variables}
        return subprocess.run(program, cwd=folder, env=environment, timeout=DEMO_S, check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="a folder for wheel and sdist")
    parser.add_argument(
        "--try", dest="demo", action="store_true", help="install the wheel and run a short demo"
    )
    parser.add_argument("--torch", default="torch==2.13.0", help="what pip installs before, with --try")
    options = parser.parse_args()
    for old in options.out.glob("warpsmith-*"):
        old.unlink()
    try:
        faults = build_and_check(options.out)
        if faults or not options.demo:
            return 1 if faults else 0
        (wheel,) = options.out.glob("*.whl")
        return try_demo(wheel, options.torch)
    except subprocess.CalledProcessError as error:
        told = (error.stderr or "").strip().splitlines()[-1:]
        print(f"{' '.join(map(str, error.cmd))} failed: {' '.join(told)}", file=sys.stderr)
    except subprocess.TimeoutExpired as error:
        print(f"the demo was not done in {error.timeout:.0f} s", file=sys.stderr)
    return 1


def build_and_check(out: Path) -> list[str]:
    """Build both files, print their sizes, and print and return what is wrong with them."""
    sdist, wheel = build(out)
    for file in (sdist, wheel):
        print(f"{file}: {file.stat().st_size / 1e6:.1f} MB")
    faults = check(sdist, wheel)
    for fault in faults:
        print(fault, file=sys.stderr)
    return faults


if __name__ == "__main__":
    sys.exit(main())

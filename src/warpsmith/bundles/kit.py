"""A kit: a folder with all that another machine needs to work without the internet, and the script that works there.

In: bundles, other files, a script of what is to be done (judging the bundles by default). Out: a folder with these, Warpsmith's
source as it lies here, wheels of what it needs for the Python there, and `run.sh`, which installs, works and packs the
results. Nothing of torch and NumPy is packed: a machine with a GPU has them. The same command packs what has changed.
"""

from __future__ import annotations

import gzip
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path

from ..errors import UsageError
from .bundle import read_bundle
from .wheels import download_wheels

PACKAGE = Path(__file__).resolve().parents[1]
ROOT = PACKAGE.parents[1]
FOLDERS = ("src", "benchmarks", "lab")  # of a checkout
MARK = "kit.txt"  # tells a kit from another folder
JUDGE_BUNDLES = Path(__file__).with_name("kit_judge.sh")
RUN = Path(__file__).with_name("kit_run.sh")


def begin_kit(out: Path) -> None:
    """Make the folder, or take one that is a kit. Raises UsageError for one that holds something else."""
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is no folder")
    if out.exists() and any(out.iterdir()) and not (out / MARK).is_file():
        raise UsageError(f"{out} holds something else than a kit: name a new folder")
    (out / "bundles").mkdir(parents=True, exist_ok=True)
    (out / MARK).write_text("bash run.sh start SECONDS\n")


def pack_kit(
    out: Path, bundles: Sequence[Path], work: Path | None, include: Sequence[Path],
    python: str | None, packages: Sequence[str],
) -> int:  # fmt: skip
    """Write the whole kit; return the number of its bundles. Raises UsageError, BundleError."""
    bundles_by_name = {path.name.partition(".")[0]: read_bundle(path) for path in bundles}
    if len(bundles_by_name) < len(bundles):
        raise UsageError("two bundles have one name: results would be of both")
    script = JUDGE_BUNDLES if work is None else work
    if not script.is_file():
        raise UsageError(f"{script} is no file: give a bash script")
    begin_kit(out)
    for folder in ("bundles", "files"):
        shutil.rmtree(out / folder, ignore_errors=True)
    (out / "bundles").mkdir()
    for name, bundle in bundles_by_name.items():
        bundle.write(out / "bundles" / name)
    copy_into(out, include)
    finish_kit(out, script.read_text(), python, packages)
    return len(bundles_by_name)


def finish_kit(out: Path, work: str, python: str | None, packages: Sequence[str] = ()) -> None:
    """Add the source, the scripts, and wheels unless `python` is None. Raises UsageError."""
    if python is not None:
        download_wheels(out / "wheels", python, packages)
    pack_source(out / "warpsmith.tar.gz")
    shutil.copy(RUN, out / "run.sh")
    (out / "work.sh").write_text(work)


def copy_into(out: Path, paths: Sequence[Path]) -> None:
    """Copy files and folders beside the bundles, under their own names. Raises UsageError."""
    for path in paths:
        destination = out / "files" / path.name
        if not path.exists():
            raise UsageError(f"{path} is not there: give a file or a folder to pack")
        if path.is_dir():
            shutil.rmtree(destination, ignore_errors=True)
            shutil.copytree(path, destination, ignore=shutil.ignore_patterns(".git", "__pycache__"))
        else:
            destination.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, destination)


def find_source_files() -> dict[str, Path]:
    """Find name → file of the source: what git lists of a checkout, else the package as it is installed."""
    command = [
        "git",
        "-C",
        str(ROOT),
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
        *FOLDERS,
    ]
    try:
        git_names = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split("\0")
    except OSError:
        git_names = []
    names = sorted(name for name in git_names if name and (ROOT / name).is_file())
    if any((ROOT / name).is_relative_to(PACKAGE) for name in names):
        return {name: ROOT / name for name in names}
    files = (f for f in sorted(PACKAGE.rglob("*")) if f.is_file() and "__pycache__" not in f.parts)
    return {f"src/warpsmith/{f.relative_to(PACKAGE).as_posix()}": f for f in files}


def pack_source(out: Path) -> None:
    """Pack the source: the same content makes the same bytes."""
    with gzip.GzipFile(out, "wb", mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as archive:
        for name, file in find_source_files().items():
            member = tarfile.TarInfo(name)
            member.size = file.stat().st_size
            with file.open("rb") as content:
                archive.addfile(member, content)


def count_uncommitted() -> int:
    """Count the files under src that differ from the last commit; 0 where there is no checkout."""
    command = ["git", "-C", str(ROOT), "status", "--porcelain", "src"]
    try:
        return len(subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines())
    except OSError:
        return 0

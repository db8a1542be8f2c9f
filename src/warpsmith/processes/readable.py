"""The files that a confined process needs to read, wherever this machine keeps them: the system's, Python's, the compilers'.

In: the environment. Out: paths for `sandbox.restrict`. What lies elsewhere, the user's own files among them, stays unread.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path

SYSTEM = (
    "/usr", "/lib", "/lib64", "/lib32", "/bin", "/sbin", "/etc", "/opt", "/sys", "/dev/urandom", "/dev/random",
    "/dev/zero", "/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/filesystems", "/proc/version",
    "/proc/sys", "/proc/driver", "/proc/devices", "/proc/modules", "/proc/mounts",
)  # fmt: skip


def python_folders() -> list[str]:
    """List the folders where Python, its packages and this one lie."""
    paths = sysconfig.get_paths()
    folders = {
        sys.prefix,
        sys.base_prefix,
        *(paths[n] for n in ("stdlib", "platstdlib", "purelib", "platlib")),
    }
    folders |= {str(Path(__file__).parents[1]), str(Path(sys.executable).resolve().parent)}
    folders |= {p for p in sys.path if p.endswith(("site-packages", "dist-packages"))}
    folders |= {p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p}
    return sorted(folders)


def tool_folders(*programs: str) -> list[str]:
    """List the folders where compilers and their libraries lie, when that is not below the system's own folders. `programs`: more
    of them, by name or path.
    """
    folders = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    for tool in ("nvcc", "g++", "c++", "ninja", *programs):
        path = shutil.which(tool)
        if path is not None:
            folders += [str(Path(path).parent), str(Path(path).resolve().parents[1])]
    folders += [p for p in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if p]
    return [p for p in folders if Path(p).is_absolute() and p != "/"]

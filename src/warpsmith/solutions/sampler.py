"""Where a process's processor time goes: samples of its instruction pointer, taken by a native signal handler.

`build_sampler` (supervisor): a cache folder in, the library's path out. `Sampler` (the solution's process): a call in, addresses
and how often each page was met out. `name_samples` (supervisor): those and `/proc/<pid>/maps` in, objects out. Only the supervisor
reads the map, so that the solution cannot rename what is mapped.
"""

from __future__ import annotations

import ctypes
import re
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from .. import machine
from ..errors import WarpsmithError
from ..records import Build
from ..targets import diagnostics
from ..targets.build_cache import BuildCache, run_confined

SOURCE = Path(__file__).with_name("sampler.c")
FLAGS = ("-x", "c", "-O2", "-Wall", "-shared", "-fPIC", "sampler.c", "-o", "sampler.so")
TICK_US = 1000  # the kernel rounds it up to its own tick
ENOUGH, PATIENCE_S = 200, 1.5  # samples, and seconds after which fewer must do
PAGE_BITS = 12
OWN, TORCH, RUNTIME = "own: ", "torch", "runtime"  # of names of objects
# Serves whoever calls it: the C and C++ libraries, thread teams, Python itself.
RUNTIME_OBJECT = re.compile(
    r"(libc|libm|libmvec|libpthread|libdl|librt|ld|ld-linux.*|libgomp.*|libiomp5|libomp|libgcc_s|libstdc\+\+|libffi.*|"
    r"libpython.*|python[\d.]*|sampler)[-.\d]*(\.so[.\d]*)?$|.*lib-dynload/|\[v"
)
# By the package, not by any folder of that name: an environment may lie in /opt/torch.
TORCH_OBJECT = re.compile(r".*/((site|dist)-packages/(torch|nvidia|triton|functorch)/|torch/lib/lib[^/]*$)")


def build_sampler(cache_dir: Path, compiler: str | None = None) -> Path | None:
    """Build the library once for a compiler and machine; None where there is no compiler that can."""
    try:
        path = machine.find_compiler(compiler)
        text, cache = SOURCE.read_text(), BuildCache(cache_dir)
        key = cache.key(
            ["sampler", path, *FLAGS, machine.compiler_signature(path), machine.make_processor_key(), text]
        )

        def compile_in(folder: Path) -> tuple[Build, bool]:
            ran = run_confined([[path, *FLAGS]], folder)
            ok = ran.code == 0 and not ran.timed_out
            parsed = diagnostics.parse(ran.output, SOURCE.name)
            return Build(unit_key="sampler", variant="", ok=ok, library="sampler.so", diagnostics=parsed), ok

        build = cache.find(key) or cache.make(key, {SOURCE.name: text}, compile_in)
    except (WarpsmithError, OSError):
        return None
    return Path(build.library) if build.ok else None


class Sampler:
    """The library, loaded into this process. Its handler is installed at the first use."""

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library))
        self._library.sampler_addresses.restype = ctypes.POINTER(ctypes.c_uint64)

    def sample(self, call: Callable[[], object]) -> dict[str, int]:
        """Repeat a call and count the pages, by number in hexadecimal, in which this process was met."""
        end = time.monotonic() + PATIENCE_S
        if self._library.sampler_start(TICK_US):
            return {}
        try:
            while True:
                call()
                if time.monotonic() > end or self._library.sampler_count() >= ENOUGH:
                    break
        finally:
            self._library.sampler_stop()
        addresses = self._library.sampler_addresses()
        pages = Counter(addresses[i] >> PAGE_BITS for i in range(self._library.sampler_count()))
        return {f"{page:x}": count for page, count in pages.items()}


def name_samples(pages: Mapping[str, int], maps: str, folder: Path) -> dict[str, int]:
    """Count samples by object. `folder`: the solution's, from which its own objects come; memory files and memory without a
    name that hold code are its own, too.
    """
    regions = sorted(_parse_maps(maps))
    starts = [start for start, _, _ in regions]
    named: Counter[str] = Counter()
    for page, count in pages.items():
        address = int(page, 16) << PAGE_BITS
        index = bisect_right(starts, address + (1 << PAGE_BITS) - 1) - 1
        inside = index >= 0 and address < regions[index][1]
        named[_name_object(regions[index][2], folder) if inside else RUNTIME] += count
    return dict(named)


def _parse_maps(maps: str) -> list[tuple[int, int, str]]:
    """List the executable mappings: from, to, path."""
    regions = []
    for line in maps.splitlines():
        fields = line.split(maxsplit=5)
        if "x" in fields[1]:
            start, stop = (int(end, 16) for end in fields[0].split("-"))
            regions.append((start, stop, fields[5].removesuffix(" (deleted)") if len(fields) == 6 else ""))
    return regions


def _name_object(path: str, folder: Path) -> str:
    if not path or path.startswith(("/memfd:", "/dev/zero")):
        return f"{OWN}{path.lstrip('/') or 'code without a file'}"
    if path.startswith(f"{folder}/"):
        relative = path.removeprefix(f"{folder}/").removeprefix("build/")
        return TORCH if relative.startswith("inductor/") else OWN + relative
    if RUNTIME_OBJECT.match(Path(path).name) or RUNTIME_OBJECT.match(path):
        return RUNTIME
    return TORCH if TORCH_OBJECT.match(path) else Path(path).name

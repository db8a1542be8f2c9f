"""The runtime of an exported package, copied into it as `_runtime.py`: it needs torch and nothing of
warpsmith.

In: the package's folder (kernels, their sources, `manifest.json`, the generated program) and the user's
own module. Out: a module that answers like it, through the kernels where they apply and through the
original in every other case. Kernels that do not fit this machine are rebuilt with its compiler; where
there is none the original runs, and `reason` says why.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
import math
import os
import platform
import shutil
import subprocess
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch

from ..runtime.calls import CallMatcher, Matched, Results
from ..tasks.structure import NotRebuildable

BUILD_SECONDS = 300


class Unusable(Exception):
    """The kernels cannot run on this machine."""


class Optimized(torch.nn.Module):
    """Drop-in for `original`, whose parameters it shares. `fallbacks` counts the calls that the original
    answered.
    """

    def __init__(self, original: torch.nn.Module, folder: Path) -> None:
        super().__init__()
        self.original = original
        self.training = original.training
        self.manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        self._call = CallMatcher(original.forward, self.manifest["call"])
        self._results = Results(original, self.manifest["tree"], {})
        self.fallbacks = self.fast_calls = 0
        self.reason = ""  # why the kernels are not used at all
        self._literals = [
            _literal(item) if item["kind"] == "literal" else None for item in self.manifest["reads"]
        ]
        try:
            self._run = load_program(folder)(load_kernels(folder, self.manifest))
        except (Unusable, OSError, AttributeError) as error:
            self._run, self.reason = None, str(error)
            warnings.warn(f"{folder.name}: the original module runs, because {error}", stacklevel=3)

    @property
    def active(self) -> bool:
        """True if the kernels can be used on this machine."""
        return self._run is not None

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        matched = self._call.match(args, kwargs)
        tensors = self._tensors(matched[0]) if matched is not None else None
        if matched is None or tensors is None or self._run is None or not self._results.known:
            return self._original_call(args, kwargs, matched if tensors is not None else None)
        self.fast_calls += 1
        return self._results.build(self._run(tensors), matched[1])

    def _original_call(self, args: tuple[Any, ...], kwargs: dict[str, Any], matched: Matched | None) -> Any:
        """The original's answer, from which the first call of the right form learns the classes of the results."""
        self.fallbacks += 1
        result = self.original(*args, **kwargs)
        if matched is not None and self._run is not None and not self._results.known:
            try:
                expected = self._results.learn(result, matched[1])
            except NotRebuildable:
                expected = False
            if not expected:
                self._run, self.reason = (
                    None,
                    "the module returns something else than when the kernels were made",
                )
        return result

    def _tensors(self, leaves: list[Any]) -> list[torch.Tensor] | None:
        """Return the tensors that the program reads, or None when it was not made for this call."""
        if not self._mode_fits() or torch.is_autocast_enabled("cpu") or self._results.differs():
            return None
        tensor_iterator, gradients = iter(leaves), torch.is_grad_enabled()
        tensors: list[torch.Tensor] = []
        for item, literal in zip(self.manifest["reads"], self._literals, strict=True):
            tensor = literal
            if literal is None:
                tensor = (
                    next(tensor_iterator, None)
                    if item["kind"] == "input"
                    else _find(self.original, item["name"])
                )
            if tensor is None or not _fits(tensor, item) or (gradients and tensor.requires_grad):
                return None
            tensors.append(tensor)
        return tensors

    def _mode_fits(self) -> bool:
        """Batch statistics, running statistics and dropout must be used as they were when the kernels
        were made.
        """
        for module in self.original.modules():
            if isinstance(module, torch.nn.modules.dropout._DropoutNd) and module.training and module.p > 0:
                return False
            tracks = isinstance(module, torch.nn.modules.batchnorm._NormBase) and module.track_running_stats
            if tracks and module.training != self.manifest["updates_buffers"]:
                return False
        return True

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The original's, under the original's names."""
        return self.original.state_dict(*args, **kwargs)


def load_program(folder: Path) -> Any:
    """`bind` of the generated program."""
    spec = importlib.util.spec_from_file_location(f"{folder.name}._program", folder / "_program.py")
    if spec is None or spec.loader is None:
        raise Unusable("its generated program is missing")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.bind


def load_kernels(folder: Path, manifest: dict[str, Any]) -> list[str]:
    """Paths of the libraries in order, rebuilt when they were made for another processor. Raises Unusable."""
    if platform.system() != "Linux":
        raise Unusable(f"its kernels are for Linux, not {platform.system()}")
    shipped = [folder / unit["library"] for unit in manifest["units"]]
    if runs_here(manifest) and all(path.is_file() for path in shipped):
        return [str(path) for path in shipped]
    return [str(_rebuilt(folder, unit)) for unit in manifest["units"]]


def runs_here(manifest: dict[str, Any]) -> bool:
    """Return whether this processor can do all that the one could for which the kernels were built."""
    return manifest["machine"] == platform.machine() and set(manifest["processor"]) <= processor_features()


def processor_features() -> set[str]:
    """The instruction set extensions that the system names."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    flags = next((line for line in lines if line.lower().startswith(("flags", "features"))), ":")
    return set(flags.split(":", 1)[1].split())


def _rebuilt(folder: Path, unit: dict[str, Any]) -> Path:
    compiler = shutil.which(os.environ.get("CXX", "g++")) or shutil.which("clang++")
    if compiler is None:
        raise Unusable(
            "its kernels were built for another processor and there is no C++ compiler to rebuild them"
        )
    source = folder / unit["source"]
    texts = [
        p.read_bytes() for p in (source, source.parent / "task.h", source.parent.parent / "warpsmith_simd.h")
    ]
    features = " ".join(sorted(processor_features())).encode()
    key = hashlib.sha256(b"\0".join([*texts, features, " ".join(unit["flags"]).encode()])).hexdigest()[:32]
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / folder.name
    library = cache / f"{key}.so"
    if not library.is_file():
        cache.mkdir(parents=True, exist_ok=True)
        _compile(compiler, source, unit, library)
    return library


def _compile(compiler: str, source: Path, unit: dict[str, Any], library: Path) -> None:
    """Build aside, then rename whole, so that a second process never loads half a library."""
    with tempfile.TemporaryDirectory(dir=library.parent) as aside:
        object_file, shared_object = Path(aside) / "unit.o", Path(aside) / "unit.so"
        includes = ["-I", str(source.parent), "-I", str(source.parent.parent)]
        commands = [
            [compiler, *unit["flags"], *includes, "-c", str(source), "-o", str(object_file)],
            [compiler, str(object_file), "-o", str(shared_object), *unit["link"]],
        ]
        for command in commands:
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_SECONDS)
            except subprocess.TimeoutExpired as error:
                raise Unusable("rebuilding its kernels takes too long") from error
            if done.returncode != 0:
                first = (done.stderr.strip().splitlines() or ["no message"])[0]
                raise Unusable(f"its kernels cannot be rebuilt here: {first}")
        shared_object.replace(library)


def _fits(tensor: Any, item: dict[str, Any]) -> bool:
    if type(tensor) is not torch.Tensor and type(tensor) is not torch.nn.Parameter:
        return False
    same = (
        list(tensor.shape) == item["shape"]
        and tensor.dtype is getattr(torch, item["dtype"])
        and tensor.is_cpu
    )
    expanded = (
        a for a, (n, s) in enumerate(zip(item["shape"], item["stride"], strict=True)) if s == 0 and n > 1
    )
    return same and all(tensor.stride(axis) == 0 for axis in expanded)


def _find(module: Any, name: str) -> Any:
    for part in name.split("."):
        if isinstance(module, list | tuple):
            module = module[int(part)]
        else:
            module = module[part] if isinstance(module, dict) else getattr(module, part, None)
    return module


def _literal(item: dict[str, Any]) -> torch.Tensor:
    raw = torch.tensor(list(base64.b64decode(item["data"])), dtype=torch.uint8)
    return raw.view(getattr(torch, item["dtype"]))[: math.prod(item["shape"])].reshape(item["shape"])

"""The runtime of an exported package, copied into it as `_runtime.py`: it needs torch and nothing of
warpsmith.

In: the package's folder (kernels, their sources, `manifest.json`, the generated program) and the user's
own module. Out: a module that answers like it, through the kernels where they apply and through the
original in every other case. Kernels that do not fit this machine are rebuilt with its compiler; where
there is none the original runs, and `reason` says why.
"""

from __future__ import annotations

import base64
import json
import math
import warnings
from pathlib import Path
from typing import Any

import torch

from ..runtime.calls import CallMatcher, Matched, Results
from ..tasks.structure import NotRebuildable
from .shipped_kernels import Unusable, load_kernels, load_program


class Optimized(torch.nn.Module):
    """Drop-in for `original`, whose parameters it shares. `fallbacks` counts the calls that the original
    answered.
    """

    def __init__(self, original: torch.nn.Module, folder: Path, call: Any = None) -> None:
        """`call`: what answers in the original's place, where the original's own call leads here."""
        super().__init__()
        self.original = original
        self._original_forward = call or original
        self.training = original.training
        self.manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        self._call = CallMatcher(call or original.forward, self.manifest["call"])
        self._results = Results(original, self.manifest["tree"], {})
        self.fallbacks = self.fast_calls = 0
        self.reason = ""  # why the kernels are not used at all
        self._literals = [
            literal(item, self.manifest["device"]) if item["kind"] == "literal" else None
            for item in self.manifest["reads"]
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
        if torch.compiler.is_compiling():
            return self._original_forward(*args, **kwargs)  # `operator` is what compilers see through
        matched = self._call.match(args, kwargs)
        tensors = self._tensors(matched[0]) if matched is not None else None
        if matched is None or tensors is None or self._run is None or not self._results.known:
            return self._original_call(args, kwargs, matched if tensors is not None else None)
        self.fast_calls += 1
        return self._results.build(self._run(tensors), matched[1])

    def _original_call(self, args: tuple[Any, ...], kwargs: dict[str, Any], matched: Matched | None) -> Any:
        """The original's answer, from which the first call of the right form learns the classes of the results."""
        self.fallbacks += 1
        result = self._original_forward(*args, **kwargs)
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
        if (
            not self._mode_fits()
            or torch.is_autocast_enabled(self.manifest["device"])
            or self._results.differs()
        ):
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
            if (
                tensor is None
                or not _fits(tensor, item, self.manifest["device"])
                or (gradients and tensor.requires_grad)
            ):
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


def _fits(tensor: Any, item: dict[str, Any], device: str) -> bool:
    if type(tensor) is not torch.Tensor and type(tensor) is not torch.nn.Parameter:
        return False
    same = (
        list(tensor.shape) == item["shape"]
        and tensor.dtype is getattr(torch, item["dtype"])
        and tensor.device.type == device
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


def literal(item: dict[str, Any], device: str) -> torch.Tensor:
    """A constant that the code of forward spells out."""
    raw = torch.tensor(list(base64.b64decode(item["data"])), dtype=torch.uint8)
    return (
        raw.view(getattr(torch, item["dtype"]))[: math.prod(item["shape"])].reshape(item["shape"]).to(device)
    )

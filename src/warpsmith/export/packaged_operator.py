"""The operator of an exported package, copied into it as `_register.py`: it needs torch and nothing of warpsmith.

In: the package's folder. Out: `torch.ops.<package>.run.default`, the whole computation as one operator over the tensors that it
reads, the module's parameters among them. Its kernels are loaded at the first call; where they cannot be used on this machine, the
same computation runs in ATen, with a warning.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from ..runtime.operators import Signature, TensorForm, define_operator
from .shipped_kernels import Unusable, load_generated, load_kernels, load_program
from .standalone import literal


def register(folder: Path) -> Any | None:
    """Define the operator of the package in this folder; None for a computation that reads no tensor."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    device = manifest["device"]
    reads = [item for item in manifest["reads"] if item["kind"] != "literal"]
    if not reads or not manifest["returns"]:
        return None
    signature = Signature(
        inputs=tuple(map(_form, reads)),
        outputs=tuple(_form(item) for item in manifest["returns"] if item is not None),
        updated=tuple(manifest["updated"]),
        device=device,
    )
    program = Program(folder, manifest)
    return define_operator(f"{manifest['name']}::run", signature, program.run, program.call_reference)


class Program:
    """The package's computation, by kernels or in ATen."""

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        self.folder, self.manifest = folder, manifest
        self._literals: list[torch.Tensor | None] | None = None
        self._kernels: Any = None
        self._reference: Any = None
        self.reason = ""  # why the kernels are not used

    def run(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        if self._kernels is None and not self.reason:
            self._load()
        if self._kernels is None:
            return self._run_reference(inputs)
        waiting = iter(inputs)
        tensors = [constant if constant is not None else next(waiting) for constant in self._constants()]
        leaves = self._kernels(tensors)
        return [leaves[n] for n, item in enumerate(self.manifest["returns"]) if item is not None]

    def call_reference(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Results, then the new values of updated inputs; nothing is changed."""
        if self._reference is None:
            literals = [t for t in self._constants() if t is not None]
            self._reference = load_generated(self.folder, "_reference").build(literals)
        return tuple(t for t in self._reference(*inputs) if isinstance(t, torch.Tensor))

    def _run_reference(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        with torch.no_grad():
            values = self.call_reference(*inputs)
            count = len(values) - len(self.manifest["updated"])
            results = list(values[:count])
            for position, value in zip(self.manifest["updated"], values[count:], strict=True):
                inputs[position].copy_(value)
        return results

    def _load(self) -> None:
        try:
            self._kernels = load_program(self.folder)(load_kernels(self.folder, self.manifest))
        except (Unusable, OSError, AttributeError) as error:
            self.reason = str(error)
            warnings.warn(f"{self.folder.name}: ATen runs, because {error}", stacklevel=4)

    def _constants(self) -> list[torch.Tensor | None]:
        if self._literals is None:
            device = self.manifest["device"]
            reads = self.manifest["reads"]
            self._literals = [literal(item, device) if item["kind"] == "literal" else None for item in reads]
        return self._literals


def _form(item: dict[str, Any]) -> TensorForm:
    return TensorForm(tuple(item["shape"]), getattr(torch, item["dtype"]), tuple(item["stride"]))

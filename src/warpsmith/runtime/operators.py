"""Kernels as `torch.library` operators: valid in `torch.compile`, `torch.export`, `torch.func`, under autocast and in CUDA graphs.

In: what an operator takes and returns, a function that runs the kernels, and the same computation in ATen (the reference). Out: the
operator, `torch.ops.<namespace>.<name>.default`. It takes the exact shapes and dtypes that its kernels were verified for; other
strides are copied, and where an input is not expanded as it was then, the reference runs. Its fake implementation knows the results' shapes and strides, updated inputs are declared as such. Gradients
are those of the reference, computed anew from the inputs; transforms of torch.func run the reference in place of the kernels.
This file needs torch alone: it is copied into exported packages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

Run = Callable[[Sequence[torch.Tensor]], Sequence[torch.Tensor]]
Reference = Callable[..., Sequence[torch.Tensor]]


@dataclass(frozen=True)
class TensorForm:
    shape: tuple[int, ...]
    dtype: torch.dtype
    stride: tuple[int, ...]

    @property
    def expanded_axes(self) -> tuple[int, ...]:
        """Axes along which all elements are one: a kernel reads only the first."""
        return tuple(
            a for a, (n, s) in enumerate(zip(self.shape, self.stride, strict=True)) if s == 0 and n > 1
        )

    def empty(self, device: torch.device) -> torch.Tensor:
        return torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device=device)


@dataclass(frozen=True)
class Signature:
    """What an operator takes and returns. `updated`: positions of inputs that it updates in place, in the order in which the
    reference returns their new values after its results.
    """

    inputs: tuple[TensorForm, ...]
    outputs: tuple[TensorForm, ...]
    updated: tuple[int, ...] = ()
    device: str = "cpu"

    @property
    def schema(self) -> str:
        marks = {n: f"(a{n}!)" for n in self.updated}
        inputs = ", ".join(f"Tensor{marks.get(n, '')} x{n}" for n in range(len(self.inputs)))
        outputs = ", ".join(["Tensor"] * len(self.outputs))
        return f"({inputs}) -> {outputs if len(self.outputs) == 1 else f'({outputs})'}"


def find_operator(qualname: str) -> Any | None:
    """The operator "namespace::name", or None where nobody has defined it in this process."""
    namespace, _, name = qualname.partition("::")
    packet = getattr(getattr(torch.ops, namespace), name, None)
    return packet.default if packet is not None else None


def define_operator(qualname: str, signature: Signature, run: Run, reference: Reference) -> Any:
    """Define the operator "namespace::name", or return the one of that name: a name stands for one content.

    `run` takes the tensors in a list, updates those that it must, and returns the results; `reference` takes them one by one and
    returns results and new values, without changing anything.
    """
    if (existing := find_operator(qualname)) is not None:
        return existing
    kernel = Kernel(qualname, signature, run, reference)
    torch.library.define(qualname, signature.schema, tags=(torch.Tag.pt2_compliant_tag, _STRIDES_TAG))
    torch.library.impl(qualname, signature.device, kernel.call)
    torch.library.register_fake(qualname, kernel.fake)
    operator = find_operator(qualname)
    assert operator is not None
    torch.library.impl(qualname, "Autograd", make_autograd(kernel, operator))
    torch.library.impl(qualname, "FuncTorchBatched", kernel.call_reference)
    return operator


# Inductor then hands over the strides that the program was traced with, as the kernels want them.
_STRIDES_TAG = getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order)


class Kernel:
    """The implementations of one operator."""

    def __init__(self, name: str, signature: Signature, run: Run, reference: Reference) -> None:
        self.name, self.signature, self.run, self.reference = name, signature, run, reference
        self.expanded = [(n, axis) for n, form in enumerate(signature.inputs) for axis in form.expanded_axes]

    def check(self, inputs: Sequence[torch.Tensor]) -> None:
        """Raises ValueError for shapes and dtypes that the kernels were not verified for."""
        for number, (tensor, form) in enumerate(zip(inputs, self.signature.inputs, strict=True)):
            if tensor.shape != form.shape or tensor.dtype is not form.dtype:
                raise ValueError(
                    f"{self.name} takes {form.dtype}{list(form.shape)} as argument {number}, not "
                    f"{tensor.dtype}{list(tensor.shape)}: it was verified for that alone"
                )

    def call(self, *inputs: torch.Tensor) -> Any:
        self.check(inputs)
        memory = {t.untyped_storage().data_ptr() for t in inputs}
        fits = all(inputs[n].stride(axis) == 0 for n, axis in self.expanded)
        results = self.run(inputs) if fits else self.reference(*inputs)
        settled = [_settle(t, form, memory) for t, form in zip(results, self.signature.outputs, strict=True)]
        return settled[0] if len(settled) == 1 else tuple(settled)

    def fake(self, *inputs: torch.Tensor) -> Any:
        self.check(inputs)
        results = [form.empty(inputs[0].device) for form in self.signature.outputs]
        return results[0] if len(results) == 1 else tuple(results)

    def call_reference(self, *inputs: torch.Tensor) -> Any:
        """The results by ATen's operations, which transforms of torch.func see through. Raises RuntimeError for what updates inputs."""
        if self.signature.updated:
            raise RuntimeError(f"{self.name} updates its inputs: call it outside of torch.func's transforms")
        with torch.autocast(self.signature.device, enabled=False):
            results = tuple(self.reference(*inputs))
        return results[0] if len(results) == 1 else results


def make_autograd(kernel: Kernel, operator: Any) -> Callable[..., Any]:
    """Make the function that runs before the kernels: it records the gradient's formula where one is needed."""
    function: Any = type("Differentiable", (_Differentiable,), {"kernel": kernel, "operator": operator})

    def forward(*inputs: torch.Tensor) -> Any:
        if torch._C._are_functorch_transforms_active():
            return kernel.call_reference(*inputs)
        if torch.is_grad_enabled() and any(t.requires_grad for t in inputs):
            if kernel.signature.updated:
                raise RuntimeError(
                    f"{kernel.name} updates its inputs and has no gradient: use torch.no_grad()"
                )
            return function.apply(*inputs)
        with torch._C._AutoDispatchBelowAutograd():
            return operator(*inputs)

    return forward


class _Differentiable(torch.autograd.Function):
    """Kernels forward; backward the reference is computed anew from the inputs, and its gradient by torch."""

    kernel: Kernel
    operator: Any

    @classmethod
    def forward(cls, *inputs: torch.Tensor) -> Any:  # type: ignore[override]
        with torch._C._AutoDispatchBelowAutograd():
            return cls.operator(*inputs)

    @classmethod
    def setup_context(cls, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs)
        outputs = output if isinstance(output, tuple) else (output,)
        ctx.mark_non_differentiable(*(t for t in outputs if not _is_differentiable(t)))

    @classmethod
    def backward(cls, ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:  # type: ignore[override]
        inputs = list(ctx.saved_tensors)
        moving = [n for n, needed in enumerate(ctx.needs_input_grad) if needed]

        def reference(*values: torch.Tensor) -> tuple[torch.Tensor, ...]:
            tensors = dict(enumerate(inputs)) | dict(zip(moving, values, strict=True))
            return tuple(t for t in cls.kernel.reference(*tensors.values()) if _is_differentiable(t))

        cotangents = [
            g
            for g, form in zip(gradients, cls.kernel.signature.outputs, strict=True)
            if form.dtype.is_floating_point or form.dtype.is_complex
        ]
        with torch.enable_grad(), torch.autocast(cls.kernel.signature.device, enabled=False):
            pull_back = torch.func.vjp(reference, *(inputs[n] for n in moving))[1]
            by_position = dict(zip(moving, pull_back(tuple(cotangents)), strict=True))
        return tuple(by_position.get(n) for n in range(len(inputs)))


def _is_differentiable(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _settle(tensor: torch.Tensor, form: TensorForm, memory: set[int]) -> torch.Tensor:
    """The result with the strides that were promised, in memory of its own."""
    if tensor.stride() == form.stride and tensor.untyped_storage().data_ptr() not in memory:
        return tensor
    settled = form.empty(tensor.device)
    settled.copy_(tensor)
    return settled


__all__ = ["Signature", "TensorForm", "define_operator", "find_operator"]

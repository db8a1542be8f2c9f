"""Which operations one call of a module runs, and whether all that it computes was computed by them.

In: a callable. Out: the fields of a `Traced`. Torch dispatches each operation, from Python or from an extension's
C++ alike, to a mode that counts it, with FLOPs as the task's own graph counts them. The mode also follows the
data: memory that torch allocated and never wrote, or that no longer holds what torch wrote last, was written by
somebody else. On a GPU the names of the kernels that ran are listed as well.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from ..records import TensorSpec
from ..tasks.flops import node_flops

TORCH_NAMESPACES = frozenset({
    "aten", "prim", "prims", "quantized", "mkldnn", "mkl", "onednn", "_c10d_functional", "higher_order", "profiler",
    "inductor", "rngprims", "streams", "debugprims",
})  # fmt: skip
ALLOCATIONS = frozenset(
    {"empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted"}
)
FILLS = frozenset(
    {"copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "set_", "resize_"}
)  # do not read
NO_KERNEL = re.compile(
    r"cuda|cu[A-Z]|Mem|Activity|Lazy|Context Sync|Event Sync|Stream Sync|aten::"
)  # of a profile
PIECES, PIECE_BYTES = 64, 16 << 10  # of a tensor's memory that are remembered


class Recorder(TorchDispatchMode):
    """`before`: tensors that were there before the call."""

    def __init__(self, before: Sequence[Tensor] = ()) -> None:
        super().__init__()
        self.ops: Counter[str] = Counter()
        self.own: Counter[str] = Counter()
        self.flops = self.foreign = 0
        # Address of a storage → the storage, kept so that its address is not used again, and what torch wrote to
        # it last; None: nothing yet.
        self._known: dict[int, tuple[torch.UntypedStorage, Tensor | None]] = {}
        for tensor in before:
            self._wrote(tensor)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        namespace, name = str(func).split(".")[:2]
        if namespace not in TORCH_NAMESPACES:
            self.own[f"{namespace}.{name}"] += 1
            with self:  # what it is made of counts
                return func.redispatch(_backend((args, kwargs)), *args, **(kwargs or {}))
        arguments = {a.name: v for a, v in zip(func._schema.arguments, args, strict=False)} | (kwargs or {})
        written = {
            a.name for a in func._schema.arguments if a.alias_info is not None and a.alias_info.is_write
        }
        view = any(r.alias_info is not None and not r.alias_info.is_write for r in func._schema.returns)
        reads = [v for k, v in arguments.items() if not (k in written and (name in FILLS or k == "out"))]
        if not view and name not in ALLOCATIONS:
            for tensor in _tensors(reads):
                self.read(tensor)
        result = func(*args, **(kwargs or {}))
        if name in ALLOCATIONS:
            self._known[_address(result)] = (result.untyped_storage(), None)
        elif not view:
            for tensor in _tensors([result, *(arguments[k] for k in written if k in arguments)]):
                self._wrote(tensor)
            self._count(func, f"{namespace}.{name.rstrip('_')}", args, kwargs, result)
        return result

    def _count(self, func: Any, name: str, args: Any, kwargs: Any, result: Any) -> None:
        transposed = bool(name == "aten.convolution" and len(args) > 6 and args[6])
        flops = node_flops(f"{name}.default", _specs((args, kwargs)), _specs(result), transposed)
        if flops:
            self.ops[name] += 1
            self.flops += flops

    def read(self, tensor: Tensor, new: bool = False) -> None:
        """Somebody uses what this tensor holds. `new`: it must be known, or somebody else made it."""
        sample = self._known.get(_address(tensor))
        current = _sample_storage(tensor)
        if sample is None:
            self.foreign += new
        elif sample[1] is None or not torch.equal(sample[1], current):
            self.foreign += 1
        self._known[_address(tensor)] = (tensor.untyped_storage(), current)

    def _wrote(self, tensor: Tensor) -> None:
        self._known[_address(tensor)] = (tensor.untyped_storage(), _sample_storage(tensor))


def trace(call: Callable[[], Any], before: Sequence[Tensor], cuda: bool) -> dict[str, Any]:
    """Runs the call once, on a GPU twice."""
    with torch.no_grad():
        recorder = Recorder(before)
        with recorder:
            result = call()
        for tensor in _tensors(result):
            recorder.read(tensor, new=True)
    return {
        "ops": dict(recorder.ops), "flops": recorder.flops, "own_ops": sorted(recorder.own),
        "foreign": recorder.foreign, "kernels": _gpu_kernels(call) if cuda else [],
    }  # fmt: skip


def _gpu_kernels(call: Callable[[], Any]) -> list[str]:
    from torch.profiler import ProfilerActivity, profile

    with torch.no_grad(), profile(activities=[ProfilerActivity.CUDA]) as profiler:
        call()
        torch.cuda.synchronize()
    return sorted(e.key for e in profiler.key_averages() if not NO_KERNEL.match(e.key))


def _sample_storage(tensor: Tensor) -> Tensor:
    """Pieces of its storage, spread from end to end."""
    flat = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())
    if flat.numel() <= PIECES * PIECE_BYTES:
        return flat.clone()
    last = flat.numel() - PIECE_BYTES
    return torch.cat(
        [flat[at : at + PIECE_BYTES] for at in (last * i // (PIECES - 1) for i in range(PIECES))]
    )


def _backend(tree: Any) -> Any:
    """The keys under which an operation on these tensors is implemented; the mode's own is above them."""
    cuda = any(leaf.is_cuda for leaf in pytree.tree_leaves(tree) if isinstance(leaf, Tensor))
    return torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA if cuda else torch._C.DispatchKey.CPU)


def _address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _tensors(tree: Any) -> list[Tensor]:
    """List the tensors with memory of their own kind; others (sparse, say) are not followed."""
    tensors = [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, Tensor)]
    return [t for t in tensors if t.layout == torch.strided and t.numel() and t.device.type != "meta"]


def _specs(tree: Any) -> list[TensorSpec]:
    tensors = [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, Tensor)]
    return [
        TensorSpec(shape=tuple(t.shape), dtype=str(t.dtype).removeprefix("torch."), stride=())
        for t in tensors
    ]

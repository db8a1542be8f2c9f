"""Which operations one call of a module runs, and whether all that it computes was computed by them.

In: a callable. Out: the fields of a `Traced`. Torch dispatches each operation, from Python or from an extension's
C++ alike, to a mode that counts it, with FLOPs as the task's own graph counts them. The mode also follows the
data: memory that torch allocated and never wrote, or that no longer holds what torch wrote last, was written by
somebody else. The mode sees one thread and can be noticed, so torch's profiler watches another call, on all threads, and what only
it sees is added. Last, where the time of repeated calls goes: on a CPU by samples, on a GPU by kernel.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from ..records import TensorSpec
from ..tasks.flops import node_flops
from .sampler import Sampler

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
COMPILED_REGION = re.compile(r"Torch-Compiled Region|## Call CompiledFxGraph")  # of a profile
GRAPH_LAUNCH = re.compile(r"cu(da)?GraphLaunch")
MARK = "warpsmith: this thread"
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
        if _is_composite(func.name()):  # under inference_mode they arrive whole
            with self:
                return func.decompose(*args, **(kwargs or {}))
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


def trace(
    call: Callable[[], Any], before: Sequence[Tensor], cuda: bool, sampler: Sampler | None = None
) -> dict[str, Any]:
    """Run the call twice, and with a sampler for a second. `sampled`: pages of code (see `Sampler.sample`)."""
    with torch.no_grad():
        pages = sampler.sample(call) if sampler is not None else {}
        events = _profile(call, cuda)
        recorder = Recorder(before)
        with recorder:
            result = call()
        for tensor in _tensors(result):
            recorder.read(tensor, new=True)
    for name, flops in _list_unseen(events, recorder.ops):
        recorder.ops[name] += 1
        recorder.flops += flops
    kernel_us = _time_kernels(events)
    return {
        "ops": dict(recorder.ops), "flops": recorder.flops, "own_ops": sorted(recorder.own), "foreign": recorder.foreign,
        "kernels": sorted(kernel_us), "kernel_us": kernel_us, "sampled": pages,
        "compiled": any(COMPILED_REGION.match(e.name) for e in events),
        "cuda_graph": any(GRAPH_LAUNCH.match(e.name) for e in events),
    }  # fmt: skip


def _profile(call: Callable[[], Any], cuda: bool) -> list[Any]:
    """List the events of one call on all threads."""
    from torch._C._profiler import _ExperimentalConfig
    from torch.profiler import ProfilerActivity, profile, record_function

    kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])]
    everywhere = _ExperimentalConfig(profile_all_threads=True)
    with profile(activities=kinds, record_shapes=True, experimental_config=everywhere) as profiler:
        with record_function(MARK):
            call()
        if cuda:
            torch.cuda.synchronize()
    return list(profiler.events())


def _list_unseen(events: Sequence[Any], seen: Counter[str]) -> list[tuple[str, int]]:
    """List (name, flops) of operations on other threads, and on this one of those that the mode saw none of."""
    traced_thread = next((e.thread for e in events if e.name == MARK), None)
    tops = [e for e in events if "::" in e.name and (e.cpu_parent is None or e.cpu_parent.name == MARK)]
    unseen = []
    for event in (leaf for top in tops for leaf in _list_leaves(top)):
        name = event.name.replace("::", ".").rstrip("_")
        flops = _estimate_flops(name, [tuple(s) for s in event.input_shapes or () if s])
        if flops and (event.thread != traced_thread or name not in seen):
            unseen.append((name, flops))
    return unseen


def _list_leaves(event: Any) -> Iterator[Any]:
    """Yield what an operation is made of where it has no kernel of its own, else the operation."""
    if event.name.startswith("aten::") and not _is_composite_packet(event.name):
        yield event
        return
    for child in event.cpu_children:
        yield from _list_leaves(child)


def _estimate_flops(name: str, shapes: Sequence[tuple[int, ...]]) -> int:
    """Count FLOPs by the shapes of the tensors that are read; what is made has the shape that such operations usually make."""
    if not shapes:
        return 0
    reads = [TensorSpec(shape=s, dtype="float32", stride=()) for s in shapes]
    base, output = name.partition(".")[2], shapes[0]
    if base in ("mm", "bmm") and len(shapes) > 1:
        output = (*shapes[0][:-1], shapes[1][-1])
    elif base in ("addmm", "baddbmm") and len(shapes) > 2:
        output = (*shapes[1][:-1], shapes[2][-1])
    elif base == "convolution" and len(shapes) > 1:
        output = (shapes[0][0], shapes[1][0], prod(shapes[0][2:]))
    return node_flops(f"{name}.default", reads, [TensorSpec(shape=output, dtype="float32", stride=())])


@cache
def _is_composite(name: str) -> bool:
    """Return whether an operation ("aten::softmax.int") is only made of others."""
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    try:
        return has_kernel(name, "CompositeImplicitAutograd") and not any(
            has_kernel(name, k) for k in ("CPU", "CUDA")
        )
    except RuntimeError:  # TorchScript's alone
        return False


@cache
def _is_composite_packet(name: str) -> bool:
    """Return the same of an operation without its overload, as a profile names it."""
    packet = getattr(torch.ops.aten, name.partition("::")[2], None)
    overloads = packet.overloads() if packet is not None else ()
    return any(_is_composite(name if o == "default" else f"{name}.{o}") for o in overloads)


def _time_kernels(events: Sequence[Any]) -> dict[str, float]:
    """Microseconds on the GPU by kernel."""
    spent: Counter[str] = Counter()
    for event in events:
        on_gpu = event.device_type == torch.autograd.DeviceType.CUDA
        if on_gpu and event.name != MARK and not NO_KERNEL.match(event.name):
            spent[event.name] += event.device_time
    return {name: round(float(us), 3) for name, us in spent.items()}


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

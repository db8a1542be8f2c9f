"""Which ATen ops survive the export: core ATen, plus those whose own kernel beats their decomposition.

Out: the table for `ExportedProgram.run_decompositions`. Library calls (products, attention, recurrent
layers) stay whole, so that what a candidate leaves to ATen runs as fast as the user's module does; so do
operators that are one kernel in eager mode and one formula for a code generator. Losses and other
composites that eager runs as several kernels fall apart into primitives, which can be fused. So do convolutions in half
precision with a bias and patch embeddings, and fake quantisation, for which torch has no decomposition: ours keeps every bit of ATen's CPU
kernels. And so do operators that a library registers itself: the processes that hold a graph do not import the library.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_float
from math import prod
from typing import Any

import torch

COPIED_AT_ONCE = 8  # elements of half precision

KEPT = (
    # library calls
    "linear", "matmul", "mv", "dot", "vdot", "addmv", "addbmm", "baddbmm",
    "scaled_dot_product_attention", "_scaled_dot_product_flash_attention_for_cpu", "lstm.input", "gru.input",
    "rnn_tanh.input", "rnn_relu.input",
    "bilinear", "embedding_bag",
    # one kernel in eager mode, one formula for a generator
    "silu", "mish", "softplus", "hardswish", "hardsigmoid", "log_sigmoid_forward", "softshrink",
    "hardshrink", "threshold", "logsumexp", "nll_loss_forward", "tril", "triu", "max_pool1d",
    "pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "lift_fresh_copy",
    # one copy in eager mode; their decompositions compute index tensors, or concatenate and reshape
    "roll", "stack", "reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "replication_pad1d",
    "replication_pad2d", "replication_pad3d",
    # interpolation: its decomposition gathers by index tensors
    "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "upsample_nearest1d.vec",
    "upsample_nearest2d.vec", "upsample_nearest3d.vec", "upsample_linear1d", "upsample_linear1d.vec",
    "upsample_bilinear2d", "upsample_bilinear2d.vec", "upsample_trilinear3d",
    "upsample_trilinear3d.vec", "upsample_bicubic2d", "upsample_bicubic2d.vec",
    "_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_bilinear2d_aa",
    "grid_sampler_2d", "im2col", "col2im", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d",
    "adaptive_max_pool2d", "adaptive_max_pool3d", "avg_pool1d", "_cdist_forward", "_pdist_forward",
)  # fmt: skip


def decomposition_table() -> Any:
    """torch's default decompositions to core ATen without the kept ops
    (https://pytorch.org/docs/stable/export.ir_spec.html), and ours of fake quantisation, uninitialised memory and libraries' own operators.
    """
    table = torch.export.default_decompositions()
    for name in KEPT:
        op = _overload(name)
        if op is not None:
            table.pop(op, None)
    for name, decomposition in FAKE_QUANTISATION.items():
        table[_overload(name)] = decomposition
    for name, decomposition in UNINITIALISED.items():
        table[_overload(name)] = decomposition
    table[_overload("convolution")] = _convolution
    for (library, name), decomposition in LIBRARIES.items():
        op = getattr(getattr(torch.ops, library), name, None)  # the library registers it when it is imported
        if op is not None:
            table[op.default] = decomposition
    return table


def drop_empty_operands(graph: torch.fx.Graph) -> None:
    """Concatenations without the vectors of no elements that torch skips. One operand that remains is copied.

    A cache that grows begins as such a vector, a literal in the code of forward.
    """
    for node in graph.nodes:
        if node.target is not torch.ops.aten.cat.default:
            continue
        dtype, operands = node.meta["val"].dtype, list(node.args[0])
        nonempty = [o for o in operands if o.meta["val"].shape != (0,) or o.meta["val"].dtype != dtype]
        if len(nonempty) == 1 and len(operands) > 1 and nonempty[0].meta["val"].dtype == dtype:
            node.target, node.args = torch.ops.aten.clone.default, (nonempty[0],)
            node.kwargs = {"memory_format": torch.contiguous_format}
        elif nonempty:
            node.args = (nonempty, *node.args[1:])


def _overload(name: str) -> Any:
    """The op of "silu" or "lstm.input"; None where this torch has none."""
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)


def _convolution(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, *geometry: Any) -> Any:
    """Decompose in half precision: a patch embedding is the linear layer that it is; of other convolutions the bias is added apart, where a
    kernel that follows may take it in: with cuDNN, ATen makes a pass of its own for it (`native/ConvUtils.h`, `native/cudnn/ConvShared.cpp`).
    """
    if x.dtype not in (torch.float16, torch.bfloat16):
        return NotImplemented
    if _is_patch_embedding(x, weight, *geometry):
        return _embed_patches(x, weight, bias)
    if bias is None:
        return NotImplemented
    sums = torch.ops.aten.convolution.default(x, weight, None, *geometry)
    for _ in range(x.dim() - 2):
        bias = bias.unsqueeze(-1)
    return sums + bias


def _is_patch_embedding(
    x: torch.Tensor, weight: torch.Tensor, stride: list[int], padding: list[int], dilation: list[int],
    transposed: bool, output_padding: list[int], groups: int,
) -> bool:  # fmt: skip
    """Tell whether a convolution reads each pixel of an image of few channels once: cuDNN has no kernel for their tensor cores then."""
    kernel = list(weight.shape[2:])
    return (
        x.dim() == 4 and weight.shape[1] < COPIED_AT_ONCE and weight.numel() > 0 and kernel == list(stride) and prod(kernel) > 1
        and all(p == 0 for p in padding) and all(d == 1 for d in dilation) and not transposed and groups == 1
        and all(n % k == 0 for n, k in zip(x.shape[2:], kernel, strict=True))
    )  # fmt: skip


def _embed_patches(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """Multiply patches (N, H W, C kh kw) by the weight (O, C kh kw), their rows padded so that a GEMM on tensor cores can copy 16 bytes at once."""
    images, channels, height, width = x.shape
    outputs, _, rows, columns = weight.shape
    down, across, depth = height // rows, width // columns, channels * rows * columns
    patches, factor = (
        x.reshape(images, channels, down, rows, across, columns).permute(0, 2, 4, 1, 3, 5),
        weight,
    )
    if depth % COPIED_AT_ONCE:
        missing = -columns % COPIED_AT_ONCE
        patches, factor = (torch.constant_pad_nd(t, [0, missing], 0) for t in (patches, factor))
        depth += channels * rows * missing
    patches, factor = patches.reshape(images, down * across, depth), factor.reshape(outputs, depth)
    tokens = torch.nn.functional.linear(patches, factor, bias)
    return tokens.permute(0, 2, 1).reshape(images, outputs, down, across).contiguous()


def _per_tensor(x: torch.Tensor, scale: float, zero_point: int, quant_min: int, quant_max: int) -> Any:
    """In float32, as the kernel holds the scale and its reciprocal."""
    scale = c_float(scale).value
    return _fake_quantised(x, scale, c_float(1.0 / scale).value, zero_point, quant_min, quant_max)


def _per_tensor_given(
    x: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, quant_min: int, quant_max: int
) -> Any:
    if zero_point.is_floating_point():
        return NotImplemented
    scale, zero_point = scale.to(torch.float32).reshape(()), zero_point.to(torch.float32).reshape(())
    return _fake_quantised(x, scale, scale.reciprocal(), zero_point, quant_min, quant_max)


def _per_channel(
    x: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, axis: int, quant_min: int, quant_max: int
) -> Any:
    shape = [-1 if d == axis else 1 for d in range(x.dim())]
    inside = zero_point.is_floating_point()
    scale, zero_point = scale.to(torch.float32).reshape(shape), zero_point.to(torch.float32).reshape(shape)
    return _fake_quantised(x, scale, scale.reciprocal(), zero_point, quant_min, quant_max, inside)


def _fake_quantised(
    x: torch.Tensor, scale: Any, inverse: Any, zero_point: Any, low: int, high: int, inside: bool = False
) -> Any:
    """The nearest of the steps `low` … `high`, a tie to the even one, a NaN to `low`.

    `inside`: the zero point is a fraction, and added before rounding. Source: ATen's
    `native/quantized/cpu/kernels/QuantizedOpKernels.cpp`.
    """
    if x.dtype == torch.float64:
        return NotImplemented  # torch multiplies by a float32 then, which no primitive does
    scaled = x.to(torch.float32) * inverse
    steps = torch.round(scaled + zero_point) if inside else torch.round(scaled) + zero_point
    steps = torch.fmax(steps, torch.full((), float(low), dtype=torch.float32, device=x.device))
    return ((torch.clamp_max(steps, high) - zero_point) * scale).to(x.dtype)


FAKE_QUANTISATION: dict[str, Callable[..., Any]] = {
    "fake_quantize_per_tensor_affine": _per_tensor,
    "fake_quantize_per_tensor_affine.tensor_qparams": _per_tensor_given,
    "fake_quantize_per_channel_affine": _per_channel,
}


def _make_zeros(size: list[int], **options: Any) -> torch.Tensor:
    """Memory that nobody has written may hold anything: in a graph it is zero, the same in every run."""
    return torch.full(size, 0, **options)


def _make_permuted_zeros(size: list[int], physical_layout: list[int], **options: Any) -> torch.Tensor:
    stored = torch.full([size[d] for d in physical_layout], 0, **options)
    return stored.permute([physical_layout.index(d) for d in range(len(size))])


UNINITIALISED: dict[str, Callable[..., Any]] = {
    "empty.memory_format": _make_zeros,
    "empty_permuted": _make_permuted_zeros,
}


def _multiply_groups(input: torch.Tensor, weight: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
    """A mixture of experts' grouped GEMM: rows [offs[e-1], offs[e]) of `input` (S, K) by `weight[e]` (E, K, N); zeros beyond
    the last offset. Source: transformers' `integrations/moe.py`, whose loop depends on the offsets' values.
    """
    rows, experts = input.shape[0], weight.shape[0]
    row = torch.arange(rows, device=offs.device, dtype=offs.dtype)
    if rows <= experts:  # as in a decode step: read the weights of the experts that are asked for
        expert = (offs.unsqueeze(0) <= row.unsqueeze(1)).sum(1)
        product = torch.bmm(input.unsqueeze(1), weight[expert.clamp_max(experts - 1)]).squeeze(1)
        return torch.where((expert < experts).unsqueeze(1), product, 0.0)
    begin = torch.cat([torch.zeros_like(offs[:1]), offs[:-1]])
    in_group = (begin.unsqueeze(1) <= row) & (row < offs.unsqueeze(1))
    return torch.where(in_group.unsqueeze(2), torch.matmul(input, weight), 0.0).sum(0)


LIBRARIES: dict[tuple[str, str], Callable[..., Any]] = {
    ("transformers", "grouped_mm_fallback"): _multiply_groups,
}

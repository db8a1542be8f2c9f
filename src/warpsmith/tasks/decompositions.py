"""Which ATen ops survive the export: core ATen, plus those whose own kernel beats their decomposition.

Out: the table for `ExportedProgram.run_decompositions`. Library calls (products, attention, recurrent
layers) stay whole, so that what a candidate leaves to ATen runs as fast as the user's module does; so do
operators that are one kernel in eager mode and one formula for a code generator. Losses and other
composites that eager runs as several kernels fall apart into primitives, which can be fused.
"""

from __future__ import annotations

from typing import Any

import torch

KEPT = (
    # library calls
    "linear", "matmul", "mv", "dot", "vdot", "addmv", "addbmm", "baddbmm",
    "scaled_dot_product_attention", "lstm.input", "gru.input", "rnn_tanh.input", "rnn_relu.input",
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
    (https://pytorch.org/docs/stable/export.ir_spec.html).
    """
    table = torch.export.default_decompositions()
    for name in KEPT:
        packet, _, overload = name.partition(".")
        op = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
        if op is not None:
            table.pop(op, None)
    return table

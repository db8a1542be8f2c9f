"""Floating-point operations of a node: 2 per multiply-add for products, 1 per output element for the rest.

In: an ATen op's name and the specs it reads and writes. Out: a count by the usual convention (a
transcendental counts 1; a reduction counts its input elements; data movement counts 0).
"""

from __future__ import annotations

from math import prod

from ..records import TensorSpec

_MOVES = frozenset({
    "view", "_unsafe_view", "reshape", "permute", "transpose", "t", "unsqueeze", "squeeze", "expand",
    "expand_as", "clone", "copy", "slice", "select", "cat", "stack", "split", "split_with_sizes",
    "unbind", "full", "full_like", "arange", "scalar_tensor", "zeros", "ones", "empty",
    "constant_pad_nd", "reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "replication_pad1d",
    "replication_pad2d", "replication_pad3d", "channel_shuffle", "embedding",
    "gather", "index", "index_select", "slice_scatter", "select_scatter", "scatter", "index_put",
    "repeat", "flip", "roll", "alias", "detach", "_to_copy", "as_strided", "diagonal", "tril", "triu",
    "pixel_shuffle", "pixel_unshuffle", "lift_fresh_copy", "unfold", "zeros_like", "ones_like", "eye",
    "narrow", "chunk",
})  # fmt: skip
_REDUCTIONS = frozenset({
    "sum", "mean", "amax", "amin", "max", "min", "argmax", "argmin", "prod", "any", "all",
    "linalg_vector_norm", "norm", "var", "std", "var_mean", "std_mean", "logsumexp", "cumsum",
    "cumprod",
})  # fmt: skip
# Operations an input element that no algorithm avoids: the count feeds a speed-of-light floor, so it errs
# low.
_PER_INPUT_ELEMENT = {
    "_softmax": 4, "_log_softmax": 4, "native_layer_norm": 5, "native_group_norm": 5,
    "_native_batch_norm_legit": 5, "_native_batch_norm_legit_functional": 5,
    "_native_batch_norm_legit_no_training": 2, "logsumexp": 3, "var": 3, "std": 3, "var_mean": 3,
    "std_mean": 3, "linalg_vector_norm": 2,
}  # fmt: skip


def node_flops(op: str, reads: list[TensorSpec], writes: list[TensorSpec], transposed: bool = False) -> int:
    """FLOPs of one node. `reads`: its tensor arguments in order; `writes`: the tensors it makes."""
    name = op.split(".")[1]
    if not writes or name in _MOVES:
        return 0
    out = writes[0].numel
    product = _product_flops(name, reads, out, transposed)
    if product is not None:
        return product
    if name in _PER_INPUT_ELEMENT and reads:
        return _PER_INPUT_ELEMENT[name] * reads[0].numel
    if (name in _REDUCTIONS or "pool" in name) and reads:
        return max(reads[0].numel, out)
    return out


def _product_flops(name: str, reads: list[TensorSpec], out: int, transposed: bool) -> int | None:
    """2·MACs of a matrix product, convolution or attention; None for other ops."""
    if name in ("mm", "bmm", "matmul", "linear", "mv", "dot", "vdot"):
        return 2 * out * (reads[0].shape[-1] if reads[0].shape else 1)
    if name in ("addmm", "baddbmm", "addmv", "addbmm"):
        return 2 * out * reads[1].shape[-1] + out
    if name == "convolution":
        # An output element takes one kernel of the weight; transposed, an input element gives one:
        # weight[0] is (in, out/groups, …).
        return 2 * (reads[0].numel if transposed else out) * prod(reads[1].shape[1:])
    if name == "scaled_dot_product_attention":
        query, key, value = reads[:3]
        return 2 * prod(query.shape[:-1]) * key.shape[-2] * (query.shape[-1] + value.shape[-1])
    if name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
        rows = reads[0].numel // max(reads[0].shape[-1], 1)
        return 2 * rows * sum(w.numel for w in reads[1:] if len(w.shape) == 2)
    return None

"""The noise model of the judge's Monte Carlo arithmetic: how much rounding an honest implementation of each ATen op
brings in.

In: a graph node and the specs of its values. Out: two relative magnitudes, in units of roundoff, by which the
oracle's values are disturbed on the way into and out of that node. Running the fp64 oracle with such random
disturbances shows, element by element, how far rounding alone can push each output, conditioning and
cancellation included (Parker, *Monte Carlo Arithmetic*, 1997).

Exact ops (views, comparisons, max, relu, gather, sums of integers) bring nothing. Arithmetic brings one rounding, a
transcendental function a few ulp (so that a polynomial exp of 4 ulp is honest), and GELU besides what a few ulp of its erf leave after
the 1 that is added to it (`stepping.find_cancelling`). A sum of K terms is granted
the random walk of a *sequential* sum, 0.41·sqrt(K) roundings (partial sums of mean square half the last): any
honest order (pairwise, blocked, in lanes) does no worse. Attention in half precision stores its probabilities as halves between its
two products, in torch's own kernels as in FlashAttention (Dao, 2023): rounding them is as if the values that they weigh were rounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod, sqrt

from ...records import Graph, Node, TensorSpec

ONE_ROUNDING = 0.41  # rms of one rounding to nearest, in units of roundoff, mantissas log-uniform
TRANSCENDENTAL = 2.0
WALK = 0.41
LEAN = 1 / 16  # a term: times the budget's reach of 8 it is the worst case, half a roundoff a term

EXACT = frozenset({
    "abs", "adaptive_max_pool2d", "adaptive_max_pool3d", "alias", "all", "amax", "amin", "any", "arange",
    "argmax", "argmin", "argsort", "as_strided", "bitwise_and", "bitwise_not", "bitwise_or",
    "bitwise_xor", "cat", "ceil", "clamp", "clamp_max", "clamp_min", "clone", "constant_pad_nd",
    "contiguous", "copy", "detach", "diagonal", "embedding", "empty", "empty_like", "empty_strided", "eq",
    "expand", "eye", "fill", "flip", "floor", "fmax", "fmin", "fmod", "full", "full_like", "gather", "ge",
    "gt", "hardtanh", "index", "index_select", "isfinite", "isinf", "isnan", "le", "lift_fresh_copy",
    "logical_and", "logical_not", "logical_or", "logical_xor", "lt", "masked_fill", "max", "max_pool1d",
    "max_pool2d", "max_pool2d_with_indices", "max_pool3d", "max_pool3d_with_indices", "maximum", "min",
    "minimum", "narrow", "ne", "neg", "new_empty", "new_full", "new_ones", "new_zeros", "nonzero", "ones",
    "ones_like", "permute", "pixel_shuffle", "pixel_unshuffle", "reflection_pad1d", "reflection_pad2d",
    "reflection_pad3d", "relu", "remainder", "repeat", "replication_pad1d", "replication_pad2d",
    "replication_pad3d", "reshape", "roll", "round", "scalar_tensor", "scatter", "select",
    "select_scatter", "sign", "signbit", "slice", "slice_scatter", "sort", "split", "split_with_sizes",
    "squeeze", "stack", "sym_size", "t", "threshold", "topk", "transpose", "tril", "triu", "trunc",
    "unbind", "unfold", "unsqueeze", "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d",
    "view", "view_as_complex", "view_as_real", "where", "zeros", "zeros_like",
})  # fmt: skip
ARITHMETIC = frozenset({
    "_prelu_kernel", "_to_copy", "add", "div", "leaky_relu", "mul", "prelu", "reciprocal", "rsub", "sqrt",
    "square", "sub",
})  # fmt: skip
LINEAR = frozenset({
    "add", "addmm", "baddbmm", "bmm", "convolution", "dot", "einsum", "linear", "matmul", "mm", "mul",
    "mv", "neg", "rsub", "sub", "sum",
})  # fmt: skip
SUMS = frozenset({
    "_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d",
    "avg_pool1d", "avg_pool2d", "avg_pool3d", "cumprod", "cumsum", "index_add", "index_put", "mean",
    "nansum", "prod", "scatter_add", "sum",
})  # fmt: skip
PRODUCTS = frozenset({
    "_convolution", "_scaled_dot_product_attention_math", "_scaled_dot_product_flash_attention_for_cpu",
    "addmm", "baddbmm", "bmm", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d", "convolution", "dot", "einsum", "linear", "matmul", "mm", "mv",
    "scaled_dot_product_attention",
})  # fmt: skip


@dataclass(frozen=True)
class Rounding:
    """In units of roundoff, root mean square."""

    inward: float = 0.0  # relative disturbance of each floating input
    outward: float = 0.0  # relative disturbance of each floating output

    @property
    def exact(self) -> bool:
        return self.inward == 0 and self.outward == 0


def op_name(node: Node) -> str:
    """`add` of `aten.add.Tensor`."""
    return node.op.split(".")[1]


def rounding(graph: Graph, node: Node, repeated: bool = False) -> Rounding:
    """`repeated`: many terms of a sum are equal, so that its roundings lean one way and grow with K, not with
    its root.
    """
    name = op_name(node)
    if name in EXACT or (name in ARITHMETIC | LINEAR | SUMS and _counts(graph, node)):
        return Rounding()
    if name in ARITHMETIC:
        return Rounding(outward=ONE_ROUNDING)
    count = terms(graph, node)
    walk = max(WALK * sqrt(count), LEAN * count if repeated else 0.0)
    if name in SUMS or name in PRODUCTS:
        return Rounding(inward=walk, outward=walk + ONE_ROUNDING)
    if any(part in name for part in ("norm", "var", "std")):
        # A sequential mean is off by a random walk, and every deviation from it with it.
        return Rounding(inward=walk, outward=walk + TRANSCENDENTAL)
    if "softmax" in name or name in ("logsumexp", "_logsumexp"):
        return Rounding(inward=ONE_ROUNDING, outward=walk + TRANSCENDENTAL)
    return Rounding(inward=ONE_ROUNDING, outward=TRANSCENDENTAL)


def find_weighed_value(node: Node) -> str:
    """Name what an attention op weighs by its probabilities; empty for other ops."""
    if "scaled_dot_product" not in op_name(node) or len(node.args) < 3:
        return ""
    value = node.args[2]
    return str(value.get("v", "")) if isinstance(value, dict) else ""


def _counts(graph: Graph, node: Node) -> bool:
    """True where a node makes integers of integers, as a step counter does."""
    specs = [graph.specs[name] for name in node.uses] + [v.spec for v in node.outputs if v is not None]
    return not any(s.dtype.startswith(("float", "bfloat", "complex")) for s in specs)


def terms(graph: Graph, node: Node) -> int:
    """Count the terms that are added up for one output element."""
    specs = graph.specs
    ins = [specs[name] for name in node.uses if name in specs]
    out = next((v.spec for v in node.outputs if v is not None), None)
    if not ins or out is None:
        return 1
    name = op_name(node)
    if name in PRODUCTS:
        return _product_terms(name, ins, out)
    if name in ("softmax", "_softmax", "_log_softmax", "log_softmax", "cumsum", "cumprod"):
        axis = next((a for a in node.args[1:2] if isinstance(a, int)), -1)
        return max(ins[0].shape[axis] if ins[0].shape else 1, 1)
    if "norm" in name and out.numel == ins[0].numel:
        return _count_normalised_terms(name, node, ins[0])
    return max(ins[0].numel // max(out.numel, 1), 1)


def _count_normalised_terms(name: str, node: Node, spec: TensorSpec) -> int:
    """Elements that share one mean: the normalised axes, a group, or all but the channel; 1 where the
    statistics are given.
    """
    if "no_training" in name:
        return 1
    if "layer_norm" in name or "rms_norm" in name:
        axes = next((a for a in node.args[1:2] if isinstance(a, list | tuple)), spec.shape[-1:])
        return max(prod(axes), 1)
    if "group_norm" in name and len(node.args) >= 7:  # (input, weight, bias, N, C, HxW, groups, eps)
        return max(int(node.args[4]) * int(node.args[5]) // int(node.args[6]), 1)
    channels = spec.shape[1] if len(spec.shape) > 1 else 1
    return max(spec.numel // max(channels, 1), 1)


def _product_terms(name: str, ins: list[TensorSpec], out: TensorSpec) -> int:
    if "conv" in name:
        weight = ins[1] if len(ins) > 1 else ins[0]
        return max(prod(weight.shape[1:]), prod(weight.shape) // max(weight.shape[1], 1), 1)
    if "attention" in name and len(ins) > 1:
        return max(ins[0].shape[-1], ins[1].shape[-2])
    matrices = [s for s in ins if len(s.shape) >= 1]
    if name in ("addmm", "baddbmm") and len(matrices) > 2:
        matrices = matrices[1:]
    return max(matrices[0].shape[-1] if matrices else 1, 1)


def exact_on_integers(graph: Graph) -> bool:
    """True where small integers stay exact through every node: sums, products and moves only."""
    return all(op_name(n) in LINEAR or rounding(graph, n).exact for n in graph.nodes)


def exact(graph: Graph) -> bool:
    """True where no node rounds at all."""
    return all(rounding(graph, n).exact for n in graph.nodes)

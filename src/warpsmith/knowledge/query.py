"""Text to search terms: operation names, signatures, bottlenecks and error messages become words that pages use.

Any text comes in; a list of distinct lower-case words goes out, most telling first as far as that is known (what an
operation's name means stands before its letters), and `match` quotes them for SQLite's FTS5 so that no text can be a
syntax error (https://sqlite.org/fts5.html#full_text_query_syntax).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType

MOST_TERMS = 48
LONGEST_TEXT = 20_000  # characters looked at

# Operation or word → what it is about. Keys are matched as whole words after splitting at everything but letters, digits
# and underscores; leading underscores do not count.
MEANINGS: Mapping[str, str] = MappingProxyType({
    "softmax": "softmax", "log_softmax": "softmax logsumexp", "safe_softmax": "softmax", "logsumexp": "softmax logsumexp",
    "native_layer_norm": "layernorm norm welford", "layer_norm": "layernorm norm", "native_group_norm": "groupnorm norm",
    "group_norm": "groupnorm norm", "native_batch_norm": "batchnorm norm", "batch_norm": "batchnorm norm",
    "cudnn_batch_norm": "batchnorm norm", "rms_norm": "rmsnorm norm", "instance_norm": "norm", "rsqrt": "rsqrt norm",
    "linalg_vector_norm": "reduction norm", "var": "variance welford reduction", "var_mean": "variance welford norm",
    "std": "variance welford reduction", "sum": "reduction sum", "mean": "reduction mean", "amax": "reduction maximum",
    "amin": "reduction minimum", "argmax": "reduction argmax index", "argmin": "reduction argmin index",
    "any": "reduction", "all": "reduction", "prod": "reduction product", "cumsum": "scan prefix", "cumprod": "scan prefix",
    "cummax": "scan prefix", "logcumsumexp": "scan prefix", "mm": "matmul gemm", "bmm": "matmul batched gemm",
    "addmm": "matmul gemm epilogue bias linear", "baddbmm": "matmul batched gemm", "linear": "matmul gemm linear",
    "matmul": "matmul gemm", "einsum": "matmul gemm", "mv": "matvec gemv", "dot": "reduction dot",
    "convolution": "convolution", "conv1d": "convolution", "conv2d": "convolution", "conv3d": "convolution",
    "conv_transpose2d": "convolution transposed", "max_pool1d": "pooling maximum", "max_pool2d": "pooling maximum",
    "max_pool2d_with_indices": "pooling maximum", "max_pool3d_with_indices": "pooling maximum", "avg_pool1d": "pooling average",
    "avg_pool2d": "pooling average", "avg_pool3d": "pooling average", "adaptive_avg_pool2d": "pooling adaptive average",
    "scaled_dot_product_attention": "attention softmax", "scaled_dot_product_flash_attention_for_cpu": "attention",
    "scaled_dot_product_efficient_attention": "attention", "nll_loss_forward": "loss crossentropy", "nll_loss": "loss",
    "cross_entropy_loss": "loss crossentropy", "mse_loss": "loss reduction", "smooth_l1_loss": "loss", "huber_loss": "loss",
    "binary_cross_entropy": "loss", "kl_div": "loss divergence", "transpose": "layout transpose", "permute": "layout transpose",
    "clone": "layout copy", "cat": "layout concatenate", "constant_pad_nd": "layout padding", "flip": "layout flip",
    "roll": "layout", "gather": "gather index", "index": "gather index", "index_select": "gather index", "embedding": "gather",
    "scatter": "scatter atomics", "scatter_add": "scatter atomics", "index_add": "scatter atomics", "pixel_shuffle": "layout",
    "fake_quantize_per_tensor_affine": "quantisation fake quantisation rounding", "quantize": "quantisation",
    "upsample_nearest2d": "upsample", "upsample_bilinear2d": "upsample", "gelu": "gelu erf elementwise", "silu": "sigmoid elementwise",
    "sigmoid": "sigmoid exp elementwise", "tanh": "tanh elementwise", "relu": "elementwise", "exp": "exp elementwise", "log": "log elementwise",
    "erf": "erf elementwise", "hardtanh": "elementwise", "hardswish": "elementwise", "mul": "elementwise", "add": "elementwise",
    "sub": "elementwise", "div": "elementwise", "pow": "elementwise", "neg": "elementwise", "abs": "elementwise", "sqrt": "elementwise",
    "maximum": "elementwise", "minimum": "elementwise", "leaky_relu": "elementwise", "mish": "softplus tanh elementwise",
    "where": "elementwise select", "clamp": "elementwise", "round": "elementwise rounding", "bitwise_not": "elementwise",
    "full": "elementwise", "eq": "elementwise", "ne": "elementwise", "gt": "elementwise", "ge": "elementwise", "lt": "elementwise",
    "le": "elementwise", "scalar_tensor": "elementwise", "softplus": "softplus elementwise", "embedding_bag": "gather", "topk": "sort selection", "sort": "sort",
    "bf16": "bfloat16 half", "bfloat16": "bfloat16 half", "f16": "float16 half", "float16": "float16 half", "fp16": "float16 half",
    "tf32": "tf32 tensor core", "hmma": "tensor core", "wgmma": "wgmma tensor core", "overhead": "launch overhead",
    "latency": "latency occupancy",
})  # fmt: skip

_DROPPED_WORDS = (
    "a an and are as at be been before but by can do does for from had has have how if in into is it its must no not of on one "
    "only or our so than that the their them then there these they this to two was were what when where which who why will "
    "with you your aten default tensor dim scalar prims true false none self contiguous strided permuted expanded float32 "
    "expected instead first last whole inputs input output outputs element elements value values time times run main line int float list mul add sub div native bool int64 int32 uint8 float64"
)
_DROPPED = frozenset(_DROPPED_WORDS.split())
PRODUCTS = ("mm", "bmm", "matmul", "addmm", "baddbmm", "einsum")
PICKS = frozenset({"gather", "nll_loss_forward", "nll_loss"})
_OPTION = re.compile(r"\b(?:device|dtype|layout|pin_memory|memory_format|correction|keepdim)=\w+")
_CALLED = re.compile(r"\b(\w+)\(")
_OVERLOAD = re.compile(r"(\baten\.\w+|\b[a-z_]\w*)\.\w+(?=\()|(?<=\baten\.)(\w+)\.\w+")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[A-Za-z]*\d+[A-Za-z]\w*")
_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[A-Za-z]+\d+")
_LABEL = re.compile(r"[it]\d+|N|[pvo]\d+k?|\d+[ef]\w*")  # of a region's signature, or a number


def terms(text: str, most: int = MOST_TERMS) -> list[str]:
    """Distinct words to search for, at most `most`."""
    plain = _OVERLOAD.sub(r"\1\2", _OPTION.sub(" ", text[:LONGEST_TEXT]))
    called = Counter(name for word in _CALLED.findall(plain) if (name := word.strip("_").lower()) in MEANINGS)
    light = {name for name in called if "elementwise" in MEANINGS[name]}
    skipped = light if len(light) < len(called) else set()  # beside a reduction, additions say nothing
    words = dict.fromkeys(_hints(called))
    for word in _WORD.findall(plain):
        if not _LABEL.fullmatch(word) and word.strip("_").lower() not in skipped:
            words.update(dict.fromkeys(_list_meanings(word)))
    return [word for word in words if len(word) > 1 and word not in _DROPPED][:most]


def _hints(called: Counter[str]) -> list[str]:
    """List what several operations are about together."""
    products = sum(called[name] for name in PRODUCTS)
    hints = ["attention"] if products > 1 and called["softmax"] else []
    hints += ["loss", "crossentropy"] if called["log_softmax"] and called.keys() & PICKS else []
    hints += (
        ["algebraic", "collapse"]
        if (products or called["linear"]) and called.keys() & {"sum", "mean"}
        else []
    )
    hints += ["rmsnorm", "norm"] if called["mean"] and called["rsqrt"] else []
    return [*hints, "quantisation"] if called["round"] and called["clamp"] else hints


def find_families(text: str) -> frozenset[str]:
    """Families of operators that a text calls, as a signature does: "matmul", "pointwise"; empty for words alone."""
    plain = _OVERLOAD.sub(r"\1\2", _OPTION.sub(" ", text[:LONGEST_TEXT]))
    called = Counter(name for word in _CALLED.findall(plain) if (name := word.strip("_").lower()) in MEANINGS)
    words = {w for name in called for w in MEANINGS[name].split()} | set(_hints(called))
    return frozenset({*words, *(("pointwise",) if "elementwise" in words else ())}) if called else frozenset()


def match(words: Iterable[str]) -> str:
    """An FTS5 query for any of the words; empty when there are none."""
    return " OR ".join('"' + word.replace('"', '""').replace("\0", "") + '"' for word in words)


def operations(signature: str) -> frozenset[str]:
    """The operations that a region's signature names, without overloads: "mm", "relu"."""
    ops = signature.split(" | ", 1)[0].split(";")
    return frozenset(op.split("(", 1)[0].split(".", 1)[0].strip() for op in ops if op.strip())


def _list_meanings(word: str) -> list[str]:
    plain = word.strip("_")
    meanings = MEANINGS.get(plain.lower())
    words = meanings.split() if meanings is not None else []
    parts = [part.lower() for part in _PART.findall(plain)]
    return [*words, plain.lower(), *(parts if len(parts) > 1 else [])]

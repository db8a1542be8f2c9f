"""Modules made at random of ten operations that users write, for `fuzz.py`.

In: a seed. Out: a module with its inputs, the same ones for the same seed. Values stay within a few orders of
magnitude of 1, so that a wrong result cannot be mistaken for rounding, and operations are continuous, so that
rounding cannot be mistaken for a wrong result.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from math import prod

import torch
import torch.nn.functional as F

MOST = 1 << 14  # elements of a value
POOL = (20, 300)  # a parameter that the weights of products are cut from
Apply = Callable[[list[torch.Tensor]], torch.Tensor]


class Made(torch.nn.Module):
    """Each operation reads the values made so far; the last value, and now and then another one, is returned."""

    def __init__(
        self, steps: list[tuple[str, Apply]], parameters: list[torch.Tensor], also: int | None
    ) -> None:
        super().__init__()
        self.steps, self.also = steps, also
        self.weights = torch.nn.ParameterList([torch.nn.Parameter(p) for p in parameters])

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values = [*inputs, *self.weights]
        for _, apply in self.steps:
            values.append(apply(values))
        return (values[-1],) if self.also is None else (values[-1], values[self.also])

    def describe(self) -> str:
        return " → ".join(name for name, _ in self.steps)


def make(seed: int, count: int = 10) -> tuple[Made, tuple[torch.Tensor, ...]]:
    """A module of `count` operations, and its inputs."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    shape = _shape(rng)
    inputs = (torch.randn(shape), torch.randn(shape))
    parameters = [torch.randn(shape[-1]) * 0.5 + 1, torch.randn(*([1] * (len(shape) - 1)), shape[-1])]
    parameters.append(torch.randn(POOL))
    values = [*inputs, *parameters]
    fixed = len(values)
    steps: list[tuple[str, Apply]] = []
    while len(steps) < count:
        name, make_step = rng.choice(OPERATIONS)
        current = values[-1] if steps else inputs[0]
        apply = make_step(rng, values, len(values) - 1 if steps else 0)
        if apply is None or (steps and steps[-1][0] == name and name in ("relu", "transpose", "flip")):
            continue
        made = apply(values)
        if (
            not 0 < made.numel() <= MOST
            or not bool(torch.isfinite(made).all())
            or (made.data_ptr() == current.data_ptr() and made.shape == current.shape)
        ):
            continue
        if not 1e-4 < float(made.detach().abs().max()) < 1e4:
            continue
        steps.append((name, apply))
        values.append(made.detach())
    also = rng.randrange(fixed, len(values) - 1) if rng.random() < 0.3 else None
    return Made(steps, [p.detach().clone() for p in parameters], also).eval(), inputs


def _shape(rng: random.Random) -> tuple[int, ...]:
    while True:
        shape = tuple(
            rng.choice([1, 2, 3, 4, 7, 8, 16, 17, 24, 33, 64, 100]) for _ in range(rng.randint(2, 4))
        )
        if 64 <= prod(shape) <= MOST // 4:
            return shape


Step = Callable[[random.Random, list[torch.Tensor], int], "Apply | None"]


def _unary(function: Callable[[torch.Tensor], torch.Tensor]) -> Step:
    return lambda rng, values, at: lambda v: function(v[at])


def _along(function: Callable[[torch.Tensor, int], torch.Tensor], least: int = 1) -> Step:
    """Something along one dimension of at least `least` elements."""

    def step(rng: random.Random, values: list[torch.Tensor], at: int) -> Apply | None:
        dims = [d for d, n in enumerate(values[at].shape) if n >= least]
        if not dims:
            return None
        dim = rng.choice(dims)
        return lambda v: function(v[at], dim)

    return step


def _binary(function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Step:
    """With an earlier value that broadcasts without making the result larger."""

    def step(rng: random.Random, values: list[torch.Tensor], at: int) -> Apply | None:
        def fits(value: torch.Tensor) -> bool:
            try:
                return torch.broadcast_shapes(value.shape, values[at].shape) == values[at].shape
            except RuntimeError:
                return False

        others = [i for i, v in enumerate(values) if i != at and fits(v)]
        if not others:
            return None
        other = rng.choice(others)
        return lambda v: function(v[at], v[other])

    return step


def _transpose(rng: random.Random, values: list[torch.Tensor], at: int) -> Apply | None:
    a, b = (rng.randrange(values[at].dim()) for _ in range(2))
    return (lambda v: v[at].transpose(a, b)) if a != b else None


def _reshape(rng: random.Random, values: list[torch.Tensor], at: int) -> Apply | None:
    shape = list(values[at].shape)
    d = rng.randrange(len(shape))
    factors = [k for k in (2, 3, 4, 8) if shape[d] % k == 0 and shape[d] > k]
    if factors and len(shape) < 4 and rng.random() < 0.6:
        k = rng.choice(factors)
        shape[d : d + 1] = [shape[d] // k, k]
    elif d + 1 < len(shape) and len(shape) > 2:
        shape[d : d + 2] = [shape[d] * shape[d + 1]]
    else:
        return None
    return lambda v: v[at].reshape(shape)


def _layer_norm(rng: random.Random, values: list[torch.Tensor], at: int) -> Apply | None:
    width = values[at].shape[-1]
    return (lambda v: F.layer_norm(v[at], (width,))) if width > 3 else None


def _softmax(rng: random.Random, values: list[torch.Tensor], at: int) -> Apply | None:
    d = rng.randrange(values[at].dim())
    return (lambda v: torch.softmax(v[at], d) * 4.0) if values[at].shape[d] > 1 else None


def _matmul(rng: random.Random, values: list[torch.Tensor], at: int) -> Apply | None:
    inner, outer = values[at].shape[-1], rng.choice([1, 3, 8, 20])
    if not 2 <= inner <= POOL[1]:
        return None
    pool = next(i for i, v in enumerate(values) if v.shape == POOL)
    return lambda v: F.linear(v[at], v[pool][:outer, :inner]) / inner**0.5


def _scores(rng: random.Random, values: list[torch.Tensor], at: int) -> Apply | None:
    """A product of the value with itself, as attention scores are."""
    if values[at].dim() < 2 or values[at].shape[-2] > 64:
        return None
    scale = 1.0 / values[at].shape[-1]
    return lambda v: v[at] @ v[at].transpose(-1, -2) * scale


def _pool(kind: Callable[..., torch.Tensor], rank: int) -> Step:
    def step(rng: random.Random, values: list[torch.Tensor], at: int) -> Apply | None:
        if values[at].dim() != rank or min(values[at].shape[2:]) < 4:
            return None
        window, stride = rng.choice([2, 3]), rng.choice([1, 2])
        return lambda v: kind(v[at], window, stride=stride, padding=1)

    return step


def _pad(rng: random.Random, values: list[torch.Tensor], at: int) -> Apply | None:
    left, right = rng.randrange(3), rng.randrange(1, 3)
    return lambda v: F.pad(v[at], (left, right))


OPERATIONS: list[tuple[str, Step]] = [
    ("relu", _unary(torch.relu)),
    ("sigmoid", _unary(torch.sigmoid)),
    ("tanh", _unary(torch.tanh)),
    ("gelu", _unary(F.gelu)),
    ("silu", _unary(F.silu)),
    ("exp", _unary(lambda x: torch.exp(torch.clamp(x, -3, 2)))),
    ("affine", _unary(lambda x: x * 0.75 + 0.25)),
    ("root", _unary(lambda x: torch.sqrt(x.abs() + 0.1))),
    ("leaky", _unary(lambda x: torch.where(x > 0, x, 0.1 * x))),
    ("add", _binary(torch.add)),
    ("multiply", _binary(lambda x, y: x * torch.tanh(y))),
    ("maximum", _binary(torch.maximum)),
    ("divide", _binary(lambda x, y: x / (1.0 + y.abs()))),
    ("centre", _along(lambda x, d: x - x.mean(d, keepdim=True), 2)),
    ("normalise", _along(lambda x, d: x / (x.norm(dim=d, keepdim=True) + 0.5) * 2.0, 2)),
    ("below maximum", _along(lambda x, d: x - x.amax(d, keepdim=True) * 0.5, 2)),
    ("variance", _along(lambda x, d: x * torch.rsqrt(x.var(d, keepdim=True) + 0.3), 3)),
    ("log-sum-exp", _along(lambda x, d: x - torch.logsumexp(x, d, keepdim=True), 2)),
    ("mean", _along(lambda x, d: x.mean(d) if x.dim() > 2 else x, 2)),
    ("sum of squares", _along(lambda x, d: (x * x).mean(d) if x.dim() > 2 else x, 2)),
    ("softmax", _softmax),
    ("layer norm", _layer_norm),
    ("running sum", _along(lambda x, d: torch.cumsum(x, d) * 0.2, 2)),
    ("sum to come", _along(lambda x, d: torch.cumsum(x.flip(d), d).flip(d) * 0.2, 2)),
    ("running maximum", _along(lambda x, d: torch.cummax(x, d).values, 2)),
    ("transpose", _transpose),
    ("reshape", _reshape),
    ("flip", _along(lambda x, d: x.flip(d), 2)),
    ("narrow", _along(lambda x, d: x.narrow(d, 1, x.shape[d] - 1), 4)),
    ("pad", _pad),
    ("concatenate", _along(lambda x, d: torch.cat([x, x * 0.5], d))),
    ("roll", _along(lambda x, d: torch.roll(x, 1, d), 2)),
    ("linear", _matmul),
    ("scores", _scores),
    ("max pool 1d", _pool(F.max_pool1d, 3)),
    ("average pool 1d", _pool(F.avg_pool1d, 3)),
    ("max pool 2d", _pool(F.max_pool2d, 4)),
    ("average pool 2d", _pool(F.avg_pool2d, 4)),
]  # fmt: skip

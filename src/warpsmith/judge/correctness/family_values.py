"""Input families: fresh values for a task's inputs, by the reference worker, on its device.

In: a graph's inputs with the task's own values, a family's name and a seed. Out: a values file with fresh
values for every role. The task's own inputs are often U[0,1), on which ReLU is the identity and a sum hardly
depends on its small terms.

Each family is one small function `(rng, own) -> values` for a floating *input*. Parameters and buffers keep
their scale (but for `faint`) and, where all of one sign, their sign (a running variance stays positive). Integers keep the
range of the task's own (they may be indices), bools their mix; values with inf or NaN in them (masks) are
kept as they are. Triangular matrices stay triangular and symmetric ones symmetric: that is what the task is about.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from math import isfinite
from pathlib import Path

import torch

from ...records import GraphInput
from ...runtime.tensors import copied_to, open_tensors, write_tensors
from ..layout import FLOATS
from .input_families import BOUNDED, FAINT

TINY = 1e-4
TOP_EXPONENT, FP16_EXPONENT = 30, 4  # of ten, of the largest magnitude of an input
PERMUTED = 1 << 22  # elements; more are moved around a circle


def normal(rng: torch.Generator, own: torch.Tensor) -> torch.Tensor:
    """N(0, 1): signs mixed, so that cancellation makes a lost bit count."""
    return _gauss(rng, own)


def heavy(rng: torch.Generator, own: torch.Tensor) -> torch.Tensor:
    """Log-normal magnitudes of either sign over about six decades: few elements carry the sum."""
    return _gauss(rng, own).mul_(_gauss(rng, own).mul_(1.5).exp_())


def large(rng: torch.Generator, own: torch.Tensor) -> torch.Tensor:
    """N(0, 64²): exp without a subtracted maximum overflows, saturating functions saturate."""
    return _gauss(rng, own).mul_(64)


def tiny(rng: torch.Generator, own: torch.Tensor) -> torch.Tensor:
    """N(0, 1e-8): what is added to keep from dividing by zero decides."""
    return _gauss(rng, own).mul_(TINY)


def offset(rng: torch.Generator, own: torch.Tensor) -> torch.Tensor:
    """50 + N(0, 1): a variance from the difference of squares loses its digits."""
    return _gauss(rng, own).add_(50)


def close(rng: torch.Generator, own: torch.Tensor) -> torch.Tensor:
    """1 + U[0, 2^-9): distinct in fp32, tied in lower precision, so that an index found in bf16 is wrong."""
    return _uniform(rng, own).mul_(2.0**-9).add_(1)


def sparse(rng: torch.Generator, own: torch.Tensor) -> torch.Tensor:
    """Nine in ten are zero."""
    return _gauss(rng, own).mul_(_uniform(rng, own) < 0.1)


def constant_rows(rng: torch.Generator, own: torch.Tensor) -> torch.Tensor:
    """Each row (last axis) one value: variance zero, every element ties for the maximum."""
    return _gauss(rng, own.narrow(-1, 0, min(1, own.shape[-1])) if own.ndim else own).expand(own.shape)


def integers(rng: torch.Generator, own: torch.Tensor) -> torch.Tensor:
    """Integers in [-4, 4]: sums of products are exact in any order."""
    return _integers(rng, own, -4, 5)


def shuffle_own(rng: torch.Generator, own: torch.Tensor) -> torch.Tensor:
    """The task's own values, permuted and scaled by log-normal factors: their signs and their scale stay."""
    flat = own.reshape(-1)
    moved = _permute(rng, flat) if flat.numel() <= PERMUTED else flat.roll(flat.numel() // 3)
    return _gauss(rng, own).mul_(0.3).exp_().mul_(moved.reshape(own.shape))


def huge(rng: torch.Generator, own: torch.Tensor) -> torch.Tensor:
    """Either sign, magnitudes around 1e30: what is kept in half precision, or squared, overflows."""
    return _gauss(rng, own).mul_(1e30)


def secret(rng: torch.Generator, own: torch.Tensor) -> torch.Tensor:
    """Scale, offset, signs, sparsity, scale of rows, constant blocks and order are drawn: nobody can write for them."""
    fresh = _gauss(rng, own)
    if _draw(rng) < 0.5:
        fresh.mul_(_gauss(rng, own).mul_(_draw(rng) * 2).exp_())
    positive = _draw(rng)  # share of the elements that lose their sign
    fresh = torch.where(_uniform(rng, own) < positive, fresh.abs(), fresh).add_(10 * _draw(rng) ** 4)
    if _draw(rng) < 0.5:
        fresh.mul_(_uniform(rng, own) >= 0.95 * _draw(rng))
    if own.ndim:
        fresh = _arrange_rows(rng, fresh)
    return fresh.mul_(10.0 ** (8 * _draw(rng) - 4))


def _arrange_rows(rng: torch.Generator, fresh: torch.Tensor) -> torch.Tensor:
    """Give rows scales of their own, make blocks of a row constant, or sort rows; any of these, or none."""
    if _draw(rng) < 0.5:
        fresh = fresh * _gauss(rng, fresh.narrow(-1, 0, min(1, fresh.shape[-1]))).mul_(2 * _draw(rng)).exp_()
    if _draw(rng) < 0.3:
        block = 2 + int(62 * _draw(rng))
        columns = torch.arange(fresh.shape[-1], device=fresh.device)
        fresh = fresh.index_select(-1, columns - columns % block)
    if _draw(rng) < 0.3:
        fresh = fresh.sort(dim=-1).values  # descending, an honest running sum loses more than is granted
    return fresh


def faint(rng: torch.Generator, own: torch.Tensor) -> torch.Tensor:
    """N(0, 1e-8), and parameters as tiny: what keeps a later layer from dividing by zero decides, too."""
    return tiny(rng, own)


MAKERS: dict[str, Callable[[torch.Generator, torch.Tensor], torch.Tensor]] = {
    "normal": normal, "heavy": heavy, "large": large, "tiny": tiny, "offset": offset, "close": close,
    "sparse": sparse, "constant-rows": constant_rows, "integers": integers, "shuffled": shuffle_own,
    "huge": huge, "secret": secret, "faint": faint,
}  # fmt: skip


def fill(
    family: str, seed: int, inputs: Sequence[GraphInput], own: Path, path: Path, device: str = "cpu",
    exponent: int | None = None,
) -> None:  # fmt: skip
    """Write the values file `path` for `inputs` from the task's own values in `own` (same layout). The same seed gives
    the same values on the same kind of device. `exponent`: of ten, the largest magnitude of an input. Raises KeyError,
    JudgeError.
    """
    specs = [i.spec for i in inputs]

    def generate() -> Iterator[torch.Tensor]:
        for index, (item, own_tensor) in enumerate(zip(inputs, open_tensors(own, specs), strict=True)):
            rng = torch.Generator(device).manual_seed(_input_seed(seed, index))
            yield _fresh(family, rng, item, copied_to(own_tensor, device), exponent)

    write_tensors(path, specs, generate())


def _input_seed(seed: int, index: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed} {index}".encode()).digest()[:7])


def _fresh(
    family: str, rng: torch.Generator, item: GraphInput, old: torch.Tensor, exponent: int | None
) -> torch.Tensor:
    make = MAKERS[family]
    if old.numel() == 0:
        return old
    if item.spec.dtype not in FLOATS:
        return _discrete(rng, old)
    values = old if item.spec.dtype == "float64" else old.float()
    low, high = (float(end) for end in torch.aminmax(values))  # NaN where there is any
    if not (isfinite(low) and isfinite(high)):
        return old
    if item.role == "input":
        fresh = _impose_form(make(rng, values), values)
        if family in BOUNDED:
            fresh = _bound(fresh, _largest(item.spec.dtype, exponent))
    elif family == "integers":
        fresh = _integers(rng, values, 1 if low >= 0 and high > 0 else -3, 4)
    else:
        fresh = _parameter(rng, values, low, high).mul_(TINY if family == FAINT else 1.0)
    return fresh.to(old.dtype)


def _largest(dtype: str, exponent: int | None) -> float:
    return 10.0 ** min(
        TOP_EXPONENT if exponent is None else exponent, FP16_EXPONENT if dtype == "float16" else TOP_EXPONENT
    )


def _bound(fresh: torch.Tensor, largest: float) -> torch.Tensor:
    """Lower all magnitudes by one factor so that none is above `largest`."""
    peak = float(fresh.abs().max())
    return fresh.mul_(largest / peak) if peak > largest else fresh


def _impose_form(fresh: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
    """Triangular where the task's own square matrices are, symmetric where they are; diagonal is both triangles."""
    if own.ndim < 2 or own.shape[-1] != own.shape[-2] or own.shape[-1] < 2 or own.min() == own.max():
        return fresh
    if not own.triu(1).any():
        fresh = fresh.tril()
    if not own.tril(-1).any():
        fresh = fresh.triu()
    if torch.equal(own, own.mT):
        fresh = fresh.triu() + fresh.triu(1).mT
    return fresh


def _parameter(rng: torch.Generator, own: torch.Tensor, low: float, high: float) -> torch.Tensor:
    """A fresh weight of the old one's scale, whose values lie from `low` to `high`. All zero (a bias at its start):
    N(0, 0.25), so that leaving it out shows.
    """
    if low == high == 0:
        return _gauss(rng, own).mul_(0.5)
    if low >= 0 or high <= 0:
        return shuffle_own(rng, own)
    spread, mean = torch.std_mean(own, correction=0)
    return _gauss(rng, own).mul_(spread).add_(mean)


def _discrete(rng: torch.Generator, own: torch.Tensor) -> torch.Tensor:
    """A permutation of the own values; of bools all alike, and of one integer repeated, nothing better is
    known to be legal.
    """
    flat = own.reshape(-1)
    if own.dtype == torch.bool and (flat == flat[0]).all():
        return _uniform(rng, own) < 0.5
    return _permute(rng, flat).reshape(own.shape)


def _gauss(rng: torch.Generator, like: torch.Tensor) -> torch.Tensor:
    return torch.randn(like.shape, generator=rng, dtype=like.dtype, device=like.device)


def _draw(rng: torch.Generator) -> float:
    return float(torch.rand((), generator=rng, device=rng.device))


def _uniform(rng: torch.Generator, like: torch.Tensor) -> torch.Tensor:
    dtype = like.dtype if like.is_floating_point() else torch.float32
    return torch.rand(like.shape, generator=rng, dtype=dtype, device=like.device)


def _integers(rng: torch.Generator, like: torch.Tensor, low: int, high: int) -> torch.Tensor:
    return torch.randint(low, high, like.shape, generator=rng, dtype=like.dtype, device=like.device)


def _permute(rng: torch.Generator, flat: torch.Tensor) -> torch.Tensor:
    return flat[torch.randperm(flat.numel(), generator=rng, device=flat.device)]

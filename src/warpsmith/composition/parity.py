"""Whether a composed model answers like the original: the judge's error budgets, over a whole run.

In: outputs of the original, of the original under Monte Carlo rounding, where possible of the original in float64, and of the composed
model. Out: `Parity`. Each element may miss the truth by a few units in its last place and `REACH` times the noise, each output by a root
mean square of the same kind (`judge.correctness.error_budget`). Integers, tokens above all, must be equal, or what rounding alone may make of
them. Without a float64 run the original's own output stands for the truth.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from ..judge.correctness.error_budget import HALVES, UNIT_ROUNDOFF, Piece, compute_error_budget
from ..records import Record
from .outputs import Run, collect_outputs

DRAWS = 2  # runs under Monte Carlo rounding
MOST_ORACLE_BYTES = 1 << 31  # of the parameters in float64
CHAOTIC = 0.1  # noise as a share of the values, from which a comparison says nothing


class Parity(Record):
    """Whether all outputs are within their budgets; `error` is the worst share of a budget."""

    ok: bool
    error: float
    detail: str = ""
    oracle: bool = True  # whether the truth was computed in float64


@dataclass(frozen=True)
class Truth:
    """What a run of the original gives, and by how much rounding may change it."""

    native: list[torch.Tensor]
    draws: list[list[torch.Tensor]]
    oracle: list[torch.Tensor] | None

    def compare(self, outputs: Sequence[torch.Tensor]) -> Parity:
        """Compare the outputs of another model's run."""
        if [(t.dtype, t.shape) for t in outputs] != [(t.dtype, t.shape) for t in self.native]:
            return Parity(ok=False, error=float("inf"), detail="its outputs have other shapes or dtypes")
        shares = [self._compare_one(number, output) for number, output in enumerate(outputs)]
        worst = max(range(len(shares)), key=lambda n: shares[n])
        ok = shares[worst] <= 1
        detail = (
            "" if ok else f"output {worst + 1} of {len(shares)} misses its budget {shares[worst]:.3g} times"
        )
        return Parity(ok=ok, error=shares[worst], detail=detail, oracle=self.oracle is not None)

    def find_chaos(self) -> str:
        """Return why a comparison would say nothing: rounding alone changes an output by a tenth of its values."""
        return next(iter(self.list_chaos()), "")

    def list_chaos(self) -> list[str]:
        """List the outputs of which a comparison says nothing, a line each."""
        lines = []
        for number, native in enumerate(self.native):
            if native.is_floating_point() and native.numel():
                size = _rms(native.double())
                if _rms(self._noise(number)) > CHAOTIC * size > 0:
                    lines.append(
                        f"output {number + 1} changes by more than {CHAOTIC:.0%} from rounding alone"
                    )
        return lines

    def _noise(self, number: int) -> torch.Tensor:
        native = self.native[number].double()
        squares = [(draw[number].double() - native).nan_to_num(0.0, 0.0, 0.0) ** 2 for draw in self.draws]
        return torch.stack(squares).mean(0).sqrt()

    def _compare_one(self, number: int, output: torch.Tensor) -> float:
        """Return the worst error of one output as a share of its budget."""
        native = self.native[number]
        name = str(native.dtype).removeprefix("torch.")
        if name not in UNIT_ROUNDOFF:
            allowed = torch.stack([native == output, *(d[number] == output for d in self.draws)]).any(0)
            return 0.0 if bool(allowed.all()) else float("inf")
        plain = native.isfinite()
        if not torch.equal(output.isfinite(), plain) or not _equal_special(output[~plain], native[~plain]):
            return float("inf")
        if not bool(plain.any()):
            return 0.0
        values = native[plain].double()
        truth = values if self.oracle is None else self.oracle[number][plain].double()
        ideal: torch.Tensor | None = None
        if name in HALVES:
            half = self.draws[0][number][plain] if self.oracle is None else truth.to(native.dtype)
            ideal = half.double()
        piece = Piece(values, truth, self._noise(number)[plain], ideal)
        allowances: list[torch.Tensor] = []
        budget = compute_error_budget(torch, name, len(self.draws), lambda: iter([piece]), allowances.append)
        error = (output[plain].double() - truth).abs()
        return max(float((error / allowances[0]).max()), _rms(error) / budget.rms)


def find_truth(run: Run, model: torch.nn.Module, seed: int) -> Truth:
    """Run the original as it is, under Monte Carlo rounding, and in float64 where memory and its code allow that. All of it is eager:
    compiled code would not run the rounding.
    """
    with torch.compiler.set_stance("force_eager"):
        native = collect_outputs(run, model, seed)
        draws = []
        for draw in range(DRAWS):
            with monte_carlo_rounding(model, seed + draw):
                draws.append(collect_outputs(run, model, seed))
        usable = [d for d in draws if _shapes(d) == _shapes(native)]
        return Truth(native, usable or [native], find_oracle(run, model, seed, native))


def find_oracle(
    run: Run, model: torch.nn.Module, seed: int, native: list[torch.Tensor]
) -> list[torch.Tensor] | None:
    """Run a copy of the model in float64; None where it is too large, or its code does not run so."""
    if sum(8 * p.numel() for p in model.parameters()) > MOST_ORACLE_BYTES:
        return None
    try:
        double = copy.deepcopy(model).double()
        for part in double.modules():
            part.register_forward_pre_hook(_cast_arguments, with_kwargs=True)
        outputs = collect_outputs(run, double, seed)
    except Exception:  # noqa: BLE001 - the user's code, in a precision that it was not written for
        return None
    return outputs if _shapes(outputs) == _shapes(native) else None


@contextmanager
def monte_carlo_rounding(model: torch.nn.Module, seed: int) -> Iterator[None]:
    """Round what goes into and comes out of every module at random, for the time being."""
    generators: dict[str, torch.Generator] = {}

    def perturb(value: Any) -> Any:
        return _map_tensors(value, lambda t: _round_at_random(t, generators, seed))

    handles = []
    for part in model.modules():
        before = part.register_forward_pre_hook(lambda m, a, k: (perturb(a), perturb(k)), with_kwargs=True)
        handles += [before, part.register_forward_hook(lambda m, a, result: perturb(result))]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _round_at_random(tensor: torch.Tensor, generators: dict[str, torch.Generator], seed: int) -> torch.Tensor:
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in UNIT_ROUNDOFF:
        return tensor
    device = str(tensor.device)
    if device not in generators:
        generators[device] = torch.Generator(tensor.device).manual_seed(seed)
    wide = torch.float64 if name == "float32" else torch.float32
    luck = torch.rand(tensor.shape, generator=generators[device], device=tensor.device, dtype=wide)
    return (tensor.to(wide) * (1 + UNIT_ROUNDOFF[name] * (4 * luck - 2))).to(tensor.dtype)


def _cast_arguments(module: torch.nn.Module, args: Any, kwargs: Any) -> Any:
    def cast(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.double() if tensor.is_floating_point() else tensor

    return _map_tensors(args, cast), _map_tensors(kwargs, cast)


def _map_tensors(value: Any, change: Any) -> Any:
    """Change the tensors in plain containers; objects of other classes stay as they are."""
    if type(value) is torch.Tensor:
        return change(value)
    if type(value) in (tuple, list):
        return type(value)(_map_tensors(item, change) for item in value)
    if type(value) is dict:
        return {key: _map_tensors(item, change) for key, item in value.items()}
    return value


def _equal_special(values: torch.Tensor, others: torch.Tensor) -> bool:
    return bool(torch.equal(values.nan_to_num(1.0), others.nan_to_num(1.0)))


def _shapes(outputs: Sequence[torch.Tensor]) -> list[torch.Size]:
    return [t.shape for t in outputs]


def _rms(values: torch.Tensor) -> float:
    return float(values.nan_to_num(0.0, 0.0, 0.0).square().mean().sqrt()) if values.numel() else 0.0

"""The truth about a graph's outputs on given inputs: native results, fp64 oracle, and the noise of honest
rounding.

In: a graph (or a region cut out of one) and native-dtype tensors for its inputs. Out: for each output a
`TruthTensors`. Runs in the reference worker. Noise is found by Monte Carlo arithmetic: the oracle is run
again with every rounding op's values disturbed at random by what `rounding.py` grants it; the root mean
square distance from the undisturbed oracle is the noise.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import cache
from math import prod

import torch

from ...records import Graph, Node
from .input_families import REPEATED
from .rounding import (
    ONE_ROUNDING,
    PRODUCTS,
    TRANSCENDENTAL,
    exact,
    exact_on_integers,
    find_weighed_value,
    op_name,
    rounding,
    terms,
)
from .stepping import Stepper, Tensors, ancestors, find_cancelling, rounds

UNIT = {torch.float64: 2.0**-53, torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
HALVES = ("float16", "bfloat16")
TF32 = 2.0**-10  # the inputs' mantissas are cut to ten bits, not rounded
# Normal draws, reused at random offsets: drawing afresh would cost more than the oracle of most graphs.
POOL_SIZE, POOL_SEED = (1 << 20) + 7, 1
TIE_DRAWS = 6
TIE_REACH = 8.0  # integers: noise is scaled up so that a tie within reach does flip
FEW = 32  # elements: an output this small has nothing to pool, and keeps its draws
BIG = 1 << 24  # elements: beyond these, fewer draws


@dataclass(frozen=True)
class TruthTensors:
    native: torch.Tensor
    oracle: torch.Tensor  # float64, or the integers
    noise: torch.Tensor  # float64; integers: (draws, *shape)
    draws: int
    exact: bool

    def rows(self, start: int, stop: int) -> TruthTensors:
        """Cut the truth to some rows; a scalar has one."""
        if self.native.ndim == 0:
            return self
        rows = slice(start, stop)
        before = (slice(None),) * (self.noise.ndim - self.native.ndim)
        return replace(
            self, native=self.native[rows], oracle=self.oracle[rows], noise=self.noise[(*before, rows)]
        )

    @property
    def finite(self) -> bool:
        return not rounds(self.native) or bool(self.native.isfinite().all() and self.oracle.isfinite().all())


@cache
def draw_pool(device: torch.device) -> torch.Tensor:
    """Draw the normal numbers of all disturbances once a process: on the CPU, so that they are the same everywhere."""
    pool = torch.randn(POOL_SIZE, generator=torch.Generator().manual_seed(POOL_SEED), dtype=torch.float64)
    return pool.to(device)


class Noise:
    """Random relative disturbances, from a pool; the seed says from where on in it."""

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed % (1 << 63))

    def disturb(self, tensor: torch.Tensor, size: float) -> torch.Tensor:
        """In the same layout. Pool by pool, so that nothing of the tensor's size is made besides the result."""
        if size == 0 or not rounds(tensor) or tensor.numel() == 0:
            return tensor
        start = int(torch.randint(POOL_SIZE, (), generator=self._generator))
        flat = tensor.reshape(-1)
        disturbed = torch.empty_like(flat, dtype=torch.float64)
        for low, factors in _cut(draw_pool(tensor.device), start, flat.numel()):
            part = flat[low : low + factors.numel()].double()
            torch.addcmul(part, part, factors, value=size, out=disturbed[low : low + factors.numel()])
        result = disturbed.view(tensor.shape)
        return (
            result
            if tensor.is_contiguous()
            else torch.empty_like(tensor, dtype=disturbed.dtype).copy_(result)
        )


def _cut(pool: torch.Tensor, start: int, count: int) -> Iterator[tuple[int, torch.Tensor]]:
    """Yield the noise of so many elements, the pool from `start` on and then again and again."""
    low = 0
    while low < count:
        piece = pool[start : start + count - low]
        yield low, piece
        low, start = low + piece.numel(), 0


class Oracle:
    """One graph, reusable over inputs."""

    def __init__(self, graph: Graph, outputs: tuple[str, ...], tf32: Collection[str] = ()) -> None:
        """`tf32`: nodes that the native reference computes in TF32, so that others may, too."""
        self.graph, self.outputs, self.tf32 = graph, outputs, frozenset(tf32)
        self.stepper = Stepper(ancestors(graph, outputs))
        nodes = self.stepper.graph.nodes
        self._roundings = {flag: {n.name: rounding(graph, n, flag) for n in nodes} for flag in (False, True)}
        self.rounding = self._roundings[False]
        self.exact = {o: exact(ancestors(graph, [o])) for o in outputs}

    def truths(
        self, values: Tensors, seed: int, *, family: str = "", most_draws: int | None = None,
        least_draws: int = 1, reach: float = 1.0,
    ) -> dict[str, TruthTensors]:  # fmt: skip
        """`family` of the inputs: on integers sums of products may be exact, on repeated values roundings
        lean one way. Draws are of noise. `reach`: how many times as large it goes through the graph, to be divided by it
        at the end: what lies so far beyond a kink, a ReLU's say, then has noise, too.
        """
        self.rounding = self._roundings[family in REPEATED]
        native = self.stepper.run(values, self.outputs)
        oracle = self.stepper.run(values, self.outputs, float64=True)
        exact = dict(self.exact)
        if family == "integers" and self._exact_sums(values):
            exact = {o: exact[o] or bool((native[o] == oracle[o]).all()) for o in self.outputs}
        noise, draws = self._noise(values, oracle, exact, seed, most_draws, least_draws, reach)
        ties = self._ties(values, exact, seed)
        truths = {}
        for name in self.outputs:
            floating = rounds(native[name])
            spread = noise[name] if floating else ties[name]
            truths[name] = TruthTensors(
                native[name], oracle[name], spread, draws if floating else 1, exact[name]
            )
        return truths

    def _noise(
        self,
        values: Tensors,
        oracle: Tensors,
        exact: dict[str, bool],
        seed: int,
        most: int | None,
        least: int,
        reach: float,
    ) -> tuple[Tensors, int]:
        noise = {o: torch.zeros_like(t) for o, t in oracle.items() if rounds(t)}
        rough = [o for o in noise if not exact[o]]
        if not rough:
            return noise, 1
        smallest = min(noise[o].numel() for o in rough)
        draws = self._draws(smallest, values)
        if most is not None and smallest >= FEW:
            draws = min(draws, most)
        draws = max(draws, least)
        source = Noise(seed)
        for _ in range(draws):
            disturbed = self._run_disturbed(values, source, reach)
            for name in rough:
                noise[name] += (disturbed[name] - oracle[name]).nan_to_num_(0, 0, 0).square_()
        return {o: (t / draws).sqrt_() / reach for o, t in noise.items()}, draws

    def _ties(self, values: Tensors, exact: dict[str, bool], seed: int) -> Tensors:
        """Other values that the integer and bool outputs take under noise."""
        specs = self.graph.specs
        discrete = [o for o in self.outputs if specs[o].dtype not in ("float64", "float32", *HALVES)]
        if all(exact[o] for o in discrete):
            return {
                o: torch.empty((0, *specs[o].shape), dtype=getattr(torch, specs[o].dtype)) for o in discrete
            }
        source = Noise(seed + 1)
        runs = [self._run_disturbed(values, source, TIE_REACH) for _ in range(TIE_DRAWS)]
        return {o: torch.stack([run[o] for run in runs]) for o in discrete}

    def _run_disturbed(self, values: Tensors, source: Noise, reach: float) -> Tensors:
        def inward(node: Node, name: str, tensor: torch.Tensor) -> torch.Tensor:
            working, storing = self._unit(node)
            size = self.rounding[node.name].inward * working
            if name == find_weighed_value(node):
                size = max(size, storing)
            if node.name in self.tf32:
                size = max(size, ONE_ROUNDING * TF32)
            return source.disturb(tensor, reach * size)

        def outward(node: Node, read: Tensors, made: Tensors) -> Tensors:
            working, storing = self._unit(node)
            size = self.rounding[node.name].outward * working + storing
            if self.rounding[node.name].exact:
                return made
            disturbed = {name: source.disturb(t, reach * size) for name, t in made.items()}
            cancelling = find_cancelling(node, read, working)
            if cancelling is not None:
                disturbed[node.output.name] += source.disturb(cancelling, reach * TRANSCENDENTAL) - cancelling
            return disturbed

        return self.stepper.run(values, self.outputs, float64=True, inward=inward, outward=outward)

    def _unit(self, node: Node) -> tuple[float, float]:
        """Roundoff of the arithmetic (halves compute in fp32), and of storing a half-precision result."""
        dtype = node.output.spec.dtype
        if dtype in HALVES:
            return UNIT[torch.float32], ONE_ROUNDING * UNIT[getattr(torch, dtype)]
        return UNIT.get(getattr(torch, dtype), UNIT[torch.float32]), 0.0

    def _draws(self, smallest: int, values: Tensors) -> int:
        draws = 2 if smallest >= 4096 else 4 if smallest >= 256 else 8
        return min(draws, 3) if sum(t.numel() for t in values.values()) > BIG else draws

    def _exact_sums(self, values: Tensors) -> bool:
        """Integers all the way, and no partial sum may reach 2^24."""
        used = [values[i] for n in self.stepper.graph.nodes for i in n.uses if i in values]
        floats = [t for t in used if rounds(t) and t.numel()]
        if not exact_on_integers(self.stepper.graph) or any(
            t.dtype in (torch.float16, torch.bfloat16) for t in floats
        ):
            return False
        if not all(bool((t == t.round()).all()) for t in floats):
            return False
        largest = max((float(t.abs().max()) for t in floats), default=1.0)
        nodes = self.stepper.graph.nodes
        products = sum(op_name(n) in PRODUCTS or op_name(n) == "mul" for n in nodes)
        growth = prod(2 * terms(self.graph, n) for n in nodes if not self.rounding[n.name].exact)
        return max(largest, 1.0) ** (products + 1) * growth < 2**24

"""One training step of a module: its call, the gradients of what it returns, and the two graphs that torch cuts it into.

In: a module and an example call. Out: the step as a function of the module; its halves with the values that they ran on. No optimizer
belongs to it. What the module returns is differentiated along fixed random directions, a single number along 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from ..compiling.steps import DIRECTIONS, compile_step
from ..errors import TaskError
from ..tasks.flattened import refuse_scripted
from ..tasks.module_state import keep_buffers
from ..tasks.values import copied_to


class HalfStep(NamedTuple):
    """Forward or backward as a graph of ATen's operations, and its inputs in one run."""

    module: torch.fx.GraphModule
    inputs: tuple[Any, ...]


@dataclass
class TrainingStep:
    """Call it with a module to run the step; `collect` for its results, with the module's buffers left as they are."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    seed: int
    _directions: dict[Any, torch.Tensor] = field(default_factory=dict)

    def __call__(self, module: torch.nn.Module) -> list[torch.Tensor]:
        """Return the gradients, those of parameters first. Raises TaskError where there are none."""
        returned = module(*self.args, **self.kwargs)
        leaves = [leaf for leaf in _list_tensors(returned) if leaf.requires_grad]
        inputs = [t for t in _list_tensors([self.args, dict(self.kwargs)]) if t.requires_grad]
        sources = [*(p for p in module.parameters() if p.requires_grad), *inputs]
        if not leaves or not sources:
            raise TaskError("nothing that the module returns needs gradients: there is no step to optimize")
        directions = [self._direct(number, leaf) for number, leaf in enumerate(leaves)]
        gradients = torch.autograd.grad(leaves, sources, directions, allow_unused=True)
        return [g for g in gradients if g is not None]

    def collect(self, module: torch.nn.Module) -> list[torch.Tensor]:
        """Return the gradients of a step and the buffers after it."""
        with keep_buffers(module):
            gradients = self(module)
            return [*gradients, *(b.detach().clone() for b in module.buffers())]

    def capture(self, module: torch.nn.Module) -> dict[str, HalfStep]:
        """Run the step once and return its halves by direction. Raises TaskError."""
        refuse_scripted(module)
        halves: dict[str, HalfStep] = {}

        def backend(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
            return record_step(graph, inputs, halves.__setitem__)

        compiled: Any = torch.compile(module, backend=backend, fullgraph=True, dynamic=False)
        try:
            with keep_buffers(module):
                self(compiled)
        except TaskError:
            raise
        except Exception as error:
            said = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
            raise TaskError(
                f"the training step is no single graph: {type(error).__name__}: {said[:240]}"
            ) from error
        finally:
            torch._dynamo.reset()
        if halves.keys() != set(DIRECTIONS):
            raise TaskError("the module ran without a backward graph: there is no step to optimize")
        return halves

    def _direct(self, number: int, leaf: torch.Tensor) -> torch.Tensor:
        """The direction of one result, the same in every run."""
        key = number, leaf.shape, leaf.dtype, leaf.device
        if key not in self._directions:
            generator = torch.Generator().manual_seed(self.seed + number)
            drawn = torch.randn(leaf.shape, generator=generator, dtype=torch.float64)
            drawn = torch.ones_like(drawn) if leaf.numel() == 1 else drawn.float()
            self._directions[key] = drawn.to(leaf.device, leaf.dtype)
        return self._directions[key]


def record_step(
    graph: torch.fx.GraphModule, inputs: Sequence[Any], keep: Callable[[str, HalfStep], None]
) -> Callable[..., Any]:
    """Compile a graph of dynamo to one that runs as it is and gives away its halves, by direction, with copies of their inputs."""

    def record(direction: str, half: torch.fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        def run(*values: Any) -> Any:
            keep(direction, HalfStep(half, tuple(_copy(value) for value in values)))
            return half(*values)

        return run

    return compile_step(graph, inputs, record)


def _copy(value: Any) -> Any:
    """Copy a tensor with its strides: kernels are made for them."""
    return copied_to(value.detach(), value.device, copy=True) if isinstance(value, torch.Tensor) else value


def _list_tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]

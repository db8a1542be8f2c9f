"""A training step in two graphs: forward with what it saves, and backward, as AOTAutograd cuts them.

In: a graph of dynamo whose inputs need gradients, and a function that compiles each half. Out: a function that autograd differentiates. Which
values are saved and which are computed anew is the choice of the min-cut partitioner, by bytes
(https://dev-discuss.pytorch.org/t/min-cut-optimal-recomputation-i-e-activation-checkpointing-with-aotautograd/467). Attention is traced as
products and a softmax, on every device: torch's fused forms hand random states and sizes from forward to backward.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch import config
from torch._functorch.aot_autograd import make_boxed_func
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._guards import tracing
from torch.nn.attention import SDPBackend, _sdpa_kernel, sdpa_kernel
from torch.utils._python_dispatch import _disable_current_modes

DIRECTIONS = FORWARD, BACKWARD = "forward", "backward"
_AT_ONCE = "force_non_lazy_backward_lowering"  # AOTAutograd else compiles backward when it first runs
COMPILE_BACKWARD_AT_ONCE = {_AT_ONCE: True} if hasattr(config, _AT_ONCE) else {}
Compile = Callable[[torch.fx.GraphModule, Sequence[Any]], Callable[..., Any]]
CompileDirection = Callable[[str, torch.fx.GraphModule, Sequence[Any]], Callable[..., Any]]


def need_gradients(inputs: Sequence[Any]) -> bool:
    """Return whether a call with these inputs records gradients."""
    return torch.is_grad_enabled() and any(isinstance(t, torch.Tensor) and t.requires_grad for t in inputs)


def compile_step(
    module: torch.fx.GraphModule, inputs: Sequence[Any], compile_direction: CompileDirection
) -> Callable[..., Any]:
    """Cut the step and compile both halves, before the first call where torch can. No operation but attention is decomposed: each is what eager mode runs.

    The graph itself stays as it is.
    """

    def make(direction: str, half: torch.fx.GraphModule, examples: Sequence[Any]) -> Any:
        return make_boxed_func(compile_direction(direction, half, examples))

    compiler = aot_autograd(
        fw_compiler=partial(make, FORWARD),
        bw_compiler=partial(make, BACKWARD),
        partition_fn=min_cut_rematerialization_partition,
    )
    with attention_in_math_form(module), config.patch(COMPILE_BACKWARD_AT_ONCE):
        compiled: Callable[..., Any] = compiler(module, inputs)
    return compiled


@contextmanager
def attention_in_math_form(module: torch.fx.GraphModule) -> Iterator[None]:
    """Trace `scaled_dot_product_attention` as products and a softmax, whatever kernels the graph itself asks torch for (`sdpa_kernel`)."""
    graphs = [part.graph for part in module.modules() if isinstance(part, torch.fx.GraphModule)]
    choices = [node for graph in graphs for node in graph.nodes if node.target is _sdpa_kernel]
    _retarget(choices, _ignore_choice)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        _retarget(choices, _sdpa_kernel)


def _retarget(nodes: Sequence[torch.fx.Node], target: Callable[..., None]) -> None:
    """Let nodes call something else."""
    for node in nodes:
        node.target = target
    for owner in {node.graph.owning_module for node in nodes}:
        if owner is not None:
            owner.recompile()


def _ignore_choice(backends: Sequence[Any], set_priority: bool = False) -> None:
    """Stand for `_sdpa_kernel`."""


class CompiledLater:
    """A graph that is compiled at its first call, for real inputs."""

    def __init__(self, module: torch.fx.GraphModule, compile_graph: Compile) -> None:
        self._module, self._compile = module, compile_graph
        self._compiled: Callable[..., Any] | None = None

    def __call__(self, *inputs: Any) -> Any:
        if self._compiled is None:
            with tracing(None), _disable_current_modes(), torch.no_grad():
                self._compiled = self._compile(self._module, list(inputs))
        return self._compiled(*inputs)


__all__ = ["BACKWARD", "DIRECTIONS", "FORWARD", "CompiledLater", "compile_step", "need_gradients"]

"""A candidate as the user gets it: one Python callable over tensors, units called through ctypes, the rest
through ATen.

In: a graph and (region, library) pairs. Out: `run(inputs)`. See `runtime.source` for the code it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from ..errors import JudgeError
from ..records import Graph, Region
from .source import candidate_source


def deploy(
    graph: Graph, parts: Sequence[tuple[Region, Path]], device: str = "cpu"
) -> Callable[[Sequence[torch.Tensor]], tuple[Any, ...]]:
    """`run(inputs)`: tensors in the order of `graph.inputs`, on the device ("cpu" or "cuda") → the output
    leaves; buffers among the inputs are updated in place.

    No gradients are recorded. Inputs of other strides than the graph's are copied where a unit reads them;
    shapes and dtypes are the caller's to check. Raises TaskError for regions that do not fit, JudgeError
    for a library that does not load.
    """
    namespace: dict[str, Any] = {"__name__": "warpsmith_candidate"}
    text = candidate_source(graph, [region for region, _ in parts], device)
    exec(compile(text, "<warpsmith candidate>", "exec"), namespace)
    try:
        run: Callable[[Sequence[torch.Tensor]], tuple[Any, ...]] = namespace["bind"](
            [str(path) for _, path in parts]
        )
    except (OSError, AttributeError) as error:
        raise JudgeError(f"a unit's library cannot be loaded: {error}") from error
    return run

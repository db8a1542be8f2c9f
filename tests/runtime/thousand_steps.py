"""1,000 steps in a process of their own, where nothing else takes memory; out: tensors, resident bytes and open files, before and
after.

In: the folder of builds, and 1 for steps with gradients.
"""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path

import psutil
import torch
from test_kernel_operators import define

from warpsmith.targets.cpu import CpuTarget


def measure() -> dict[str, int]:
    gc.collect()
    tensors = sum(isinstance(o, torch.Tensor) for o in gc.get_objects())
    return {
        "tensors": tensors,
        "resident": psutil.Process().memory_info().rss,
        "files": psutil.Process().num_fds(),
    }


def main(builds: Path, training: bool) -> None:
    operator, *_ = define(CpuTarget(builds), torch.float32)
    x = torch.randn(4, 8, requires_grad=training)
    y = torch.randn(8)
    compiled = torch.compile(lambda x, y: operator(x, y).sum(), fullgraph=True, backend="aot_eager")

    def step() -> None:
        total = compiled(x, y)
        if training:
            total.backward()

    for _ in range(20):
        step()
    before = measure()
    for _ in range(1000):
        step()
    print(json.dumps({"before": before, "after": measure()}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] == "1")

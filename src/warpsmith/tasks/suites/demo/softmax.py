"""Row softmax: the smallest example. `warpsmith optimize examples/softmax.py`"""

import torch
import torch.nn as nn

batch_size = 2048
dim = 2048

VARIANTS = {
    "ragged": {"batch_size": 509, "dim": 1021},
    "small": {"batch_size": 64, "dim": 256},
}


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, dim=1)


def get_inputs():
    return [torch.randn(batch_size, dim)]


def get_init_inputs():
    return []

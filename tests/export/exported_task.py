"""The file of the task that the tests of exports write and run."""

from __future__ import annotations

TASK = '''\
"""Linear, batch norm, a gate with a literal; returns a tensor and a dict."""
import torch
import torch.nn as nn

batch_size = 61
features = 37


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(features, width)
        self.norm = nn.BatchNorm1d(width)
        self.scale = nn.Parameter(torch.rand(width))

    def forward(self, x, y):
        h = torch.relu(self.norm(self.linear(x)))
        s = torch.sigmoid(h * 0.5) * self.scale
        return s, {"sum": y + h.t()}


def get_inputs():
    return [torch.randn(batch_size, features), torch.randn(16, batch_size)]


def get_init_inputs():
    return [16]
'''

"""Triplet margin loss on embeddings: two distances a row, a margin, the mean over the batch."""

import torch
import torch.nn as nn
import torch.nn.functional as F

rows = 4096
width = 256

VARIANTS = {
    "ragged": {"rows": 1021, "width": 203},
    "small": {"rows": 256, "width": 64},
}


class Model(nn.Module):
    def forward(self, anchor: torch.Tensor, positive: torch.Tensor, negative: torch.Tensor) -> torch.Tensor:
        return F.triplet_margin_loss(anchor, positive, negative, margin=4.0, eps=0.0)


def get_inputs():
    anchor = torch.randn(rows, width)
    return [anchor, anchor + torch.randn(rows, width), 0.5 * anchor + torch.randn(rows, width)]


def get_init_inputs():
    return []

"""A chunk of Mamba-2 at prefill, written as products: decays between all pairs of its tokens, the state from before, the new state."""

import torch
import torch.nn as nn
import torch.nn.functional as F

sequences = 8
heads = 24
chunk = 256
depth = 64
state = 128

VARIANTS = {
    "ragged": {"sequences": 3, "heads": 5, "chunk": 77, "depth": 24, "state": 20},
    "small": {"sequences": 2, "heads": 2, "chunk": 16, "depth": 8, "state": 8},
}


class Model(nn.Module):
    def __init__(self, heads: int) -> None:
        super().__init__()
        self.rate = nn.Parameter(torch.log(0.05 + 0.2 * torch.rand(heads)))
        self.skip = nn.Parameter(torch.randn(heads, 1))

    def forward(
        self,
        x: torch.Tensor,
        step: torch.Tensor,
        write: torch.Tensor,
        read: torch.Tensor,
        state: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        size = F.softplus(step.float())
        fall = torch.cumsum(-size * torch.exp(self.rate), dim=1).transpose(1, 2)
        position = torch.arange(x.shape[1], device=x.device)
        between = (fall[..., :, None] - fall[..., None, :]).masked_fill(
            position > position[:, None], float("-inf")
        )
        entered = (x.float() * size[..., None]).transpose(1, 2)
        scores = torch.matmul(read, write.transpose(1, 2)).float()[:, None] * torch.exp(between)
        before = torch.matmul(read.float()[:, None], state) * torch.exp(fall)[..., None]
        y = torch.matmul(scores, entered) + before
        y = y.transpose(1, 2) + self.skip * x.float()
        last = fall.amin(dim=-1, keepdim=True)
        left = write.float()[:, None] * torch.exp(last - fall)[..., None]
        after = state * torch.exp(last)[..., None] + torch.matmul(left.transpose(-2, -1), entered)
        return y.to(x.dtype), after


def get_inputs():
    return [
        torch.randn(sequences, chunk, heads, depth).bfloat16(),
        torch.randn(sequences, chunk, heads).bfloat16(),
        torch.randn(sequences, chunk, state).bfloat16(),
        torch.randn(sequences, chunk, state).bfloat16(),
        torch.randn(sequences, heads, state, depth),
    ]


def get_init_inputs():
    return [heads]

"""An encoder layer of BERT-base over 32 padded sentences: attention under a mask, LayerNorm after each half, GELU."""

import torch
import torch.nn as nn
import torch.nn.functional as F

sentences = 32
tokens = 128
width = 768
heads = 12

VARIANTS = {
    "ragged": {"sentences": 3, "tokens": 37, "width": 200, "heads": 5},
    "small": {"sentences": 2, "tokens": 12, "width": 128, "heads": 4},
}


class Model(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm, self.mlp_norm = (nn.LayerNorm(width, eps=1e-12) for _ in range(2))
        for norm in (self.norm, self.mlp_norm):
            nn.init.uniform_(norm.weight, 0.5, 1.5)
            nn.init.normal_(norm.bias, std=0.5)
        nn.init.normal_(self.query.weight, std=2 * width**-0.5)
        nn.init.normal_(self.query.bias)
        nn.init.normal_(self.key.weight, std=2 * width**-0.5)
        self.key.bias = None  # it adds the same to all scores of a row
        self.half()

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        query, key, value = (
            layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        inside = torch.arange(x.shape[1], device=x.device) < lengths[:, None, None, None]
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=inside)
        x = self.norm(x + self.out(mixed.transpose(1, 2).flatten(2)))
        return self.mlp_norm(x + self.down(F.gelu(self.up(x))))


def get_inputs():
    lengths = torch.randint(tokens // 2, tokens + 1, (sentences,))
    return [torch.randn(sentences, tokens, width).half(), lengths]


def get_init_inputs():
    return [width, heads]

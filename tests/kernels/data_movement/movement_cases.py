"""What data movement is tried on: functions of tensors, at main and at awkward shapes."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

Tensors = tuple[torch.Tensor, ...]


def rotary(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), -1)
    return x * cos + turned * sin


def rotary_pairs(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    even, odd = x[..., ::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)


def assigned(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = x.clone()
    out[:, 2:5] = y * 2
    return out.relu()


def r(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


def ids(high: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, high, shape)


# name → (function, main arguments, arguments at other sizes that the same source must be right at)
CASES: dict[str, tuple[Callable[..., object], Tensors, tuple[Tensors, ...]]] = {
    "transpose_gelu": (lambda x: F.gelu(x.transpose(1, 2)).contiguous(), (r(2, 70, 90),), ((r(3, 2, 33),), (r(1, 65, 129),))),
    "transpose_add": (lambda x, y, b: x.t() * 2 + y + b, (r(100, 90), r(90, 100), r(100)), ((r(37, 5), r(5, 37), r(37)),)),
    "tokens": (lambda x, p: x.flatten(2).transpose(1, 2) + p, (r(2, 48, 8, 10), r(80, 48)), ((r(1, 33, 3, 5), r(15, 33)),)),
    "heads": (lambda x: x.view(3, 40, 4, 16).permute(0, 2, 1, 3).contiguous().relu(), (r(3, 40, 64),), ()),
    "cat_last": (lambda x, y, z: torch.cat((x.relu(), y * 2, z), -1), (r(9, 40), r(9, 33), r(9, 7)), ((r(2, 1), r(2, 17), r(2, 64)), (r(3, 0), r(3, 4), r(3, 2)))),
    "cat_channels": (lambda x, y: torch.cat((F.silu(x), y + 1), 1), (r(2, 5, 6, 9), r(2, 3, 6, 9)), ((r(1, 1, 3, 3), r(1, 7, 3, 3)),)),
    "pad": (lambda x: F.pad(x, (1, 2, 3, 0), value=0.5).exp(), (r(4, 20, 30),), ((r(1, 1, 1),), (r(2, 7, 33),))),
    "pad_crop": (lambda x, m: x * m + F.pad(x, (0, 0, 1, -1)) * (1 - m), (r(3, 20, 40), r(40)), ((r(2, 9, 17), r(17)),)),
    "pad_reflect": (lambda x: F.pad(x, (2, 3, 1, 2), mode="reflect") * 3, (r(2, 3, 9, 21),), ((r(1, 1, 4, 5),),)),
    "pad_replicate": (lambda x: F.pad(x, (2, 1), mode="replicate").neg(), (r(2, 3, 21),), ((r(1, 1, 1),),)),
    "slice_step": (lambda x: x[:, ::2] * x[:, 1::2], (r(20, 66),), ((r(3, 34),),)),
    "slice_tail": (lambda x: x[:, 3:].exp() - x[:, :-3], (r(6, 40),), ((r(2, 5),),)),
    "shift": (lambda x: torch.cat((x[:, 1:], x[:, :1]), 1) - x, (r(6, 40),), ((r(2, 5),),)),
    "flip": (lambda x: x.flip(1) + x.flip(0, 1) * 2, (r(20, 45),), ((r(1, 1),), (r(3, 130),))),
    "roll": (lambda x: torch.roll(x, (3, -2), (1, 2)).abs(), (r(2, 9, 40),), ((r(1, 4, 7),),)),
    "index_select": (lambda x, i: torch.index_select(x, 1, i) * 2, (r(5, 30, 8), ids(30, 12)), ((r(2, 4, 3), ids(4, 7)),)),
    "gather": (lambda x, i: torch.gather(x, -1, i).exp(), (r(6, 30), ids(30, 6, 17)), ((r(2, 4), ids(4, 1, 3)),)),
    "gather_rows": (lambda x, i: torch.gather(x, 0, i) + 1, (r(6, 30), ids(6, 9, 30)), ((r(2, 4), ids(2, 5, 4)),)),
    "index": (lambda x, i, j: x[:, i, j] * 2, (r(4, 9, 20), ids(9, 6) - 9, ids(20, 6)), ((r(1, 3, 4), ids(3, 2), ids(4, 2) - 4),)),
    "index_columns": (lambda x, i: F.silu(x[:, i]), (r(4, 33), ids(33, 50) - 7), ((r(1, 9), ids(9, 3)),)),
    "embedding": (lambda w, i, p: F.embedding(i, w) * 4 + p, (r(50, 40), ids(50, 3, 7), r(7, 40)), ((r(5, 17), ids(5, 2, 4), r(4, 17)),)),
    "rotary": (rotary, (r(2, 3, 20, 32), r(20, 32), r(20, 32)), ((r(1, 2, 5, 32), r(5, 32), r(5, 32)),)),
    "rotary_pairs": (rotary_pairs, (r(2, 3, 20, 64), r(20, 32), r(20, 32)), ((r(1, 2, 5, 18), r(5, 9), r(5, 9)),)),
    "repeat": (lambda x, y: x.repeat(y.shape[0] // x.shape[0], 3) * y, (r(5, 12), r(10, 36)), ((r(2, 7), r(8, 21)), (r(2, 7), r(2, 21)))),
    "repeat_interleave": (lambda x, y: x.repeat_interleave(4, 1) + y, (r(5, 12, 9), r(5, 48, 9)), ((r(2, 3, 5), r(2, 12, 5)),)),
    "repeat_last": (lambda x: x.repeat_interleave(2, -1).tanh(), (r(50, 120),), ((r(2, 7),),)),
    "tril": (lambda x: torch.tril(x * 2, 1), (r(3, 20, 30),), ((r(1, 5, 3),),)),
    "triu": (lambda x: torch.triu(x, -2).exp(), (r(20, 30),), ((r(5, 3),),)),
    "stack": (lambda x, y: torch.stack((x.relu(), y), 1), (r(7, 30), r(7, 30)), ((r(2, 3), r(2, 3)),)),
    "pixel_shuffle": (lambda x, b: F.silu(F.pixel_shuffle(x, 2) + b), (r(2, 12, 9, 20), r(3, 1, 1)), ((r(1, 4, 1, 5), r(1, 1, 1)),)),
    "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x, 2).relu(), (r(2, 3, 8, 40),), ((r(1, 1, 2, 6),),)),
    "channel_shuffle": (lambda x: F.channel_shuffle(x, 3).relu(), (r(2, 12, 5, 7),), ((r(1, 6, 3, 3),),)),
    "assign": (assigned, (r(4, 9, 11), r(4, 3, 11)), ((r(1, 7, 3), r(1, 3, 3)),)),
    "mask": (lambda x, y: torch.cat((x > 0, y < 0.5), 1), (r(5, 20), r(5, 13)), ((r(1, 3), r(1, 9)),)),
}  # fmt: skip

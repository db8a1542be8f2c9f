"""The Python API: a module and example inputs in, a drop-in `nn.Module` out."""

import torch
import torch.nn as nn

import warpsmith


class Gate(nn.Module):
    """RMS norm, then a gated activation."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(1.0 + 0.3 * torch.randn(width))

    def forward(self, x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        h = x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + 1e-5) * self.gain
        return h * nn.functional.silu(gate)


def main() -> None:
    torch.manual_seed(0)
    module = Gate(1024)
    x, gate = torch.randn(1024, 1024), torch.randn(1024, 1024)

    fast = warpsmith.optimize(module, (x, gate))

    print(fast.report())  # what was measured, against which baseline, with its interval
    with torch.no_grad():
        difference = (fast(x, gate) - module(x, gate)).abs().max().item()
    print(f"largest difference from the original: {difference:.2e}")


if __name__ == "__main__":
    main()

"""The truth about a graph: what counts as honest noise."""

from __future__ import annotations

import torch

from warpsmith.judge.oracle import Oracle
from warpsmith.tasks.export import export_program, program_graph


class Convolution(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(8, 4, 3, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x) * 2.0


def cut(tensor: torch.Tensor) -> torch.Tensor:
    """To ten bits of mantissa, as tensor cores may."""
    return (tensor.view(torch.int32) & ~0x1FFF).view(torch.float32)


def test_tf32_counts_as_noise_where_the_reference_uses_it() -> None:
    torch.manual_seed(0)
    module, x = Convolution(), torch.randn(2, 8, 12, 12)
    graph = program_graph(export_program(module, (x,), {}, "test.py"), "test.py")
    values = {i.name: x if i.role == "input" else module.conv.weight.detach() for i in graph.inputs}
    outputs = tuple(o.value for o in graph.outputs if o.value is not None)
    (conv,) = (n.name for n in graph.nodes if "conv" in n.op)
    plain, loose = (Oracle(graph, outputs, names).truths(values, 1)[outputs[0]] for names in ((), (conv,)))
    exact = torch.nn.functional.conv2d(x.double(), module.conv.weight.detach().double()) * 2
    missed = (
        torch.nn.functional.conv2d(cut(x).double(), cut(module.conv.weight.detach()).double()) * 2 - exact
    )
    assert torch.equal(plain.oracle, loose.oracle)
    assert missed.square().mean().sqrt() > 100 * plain.noise.square().mean().sqrt()
    assert 0.5 < missed.square().mean().sqrt() / loose.noise.square().mean().sqrt() < 2

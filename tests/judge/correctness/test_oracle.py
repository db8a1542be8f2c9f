"""The truth about a graph: what counts as honest noise."""

from __future__ import annotations

import pytest
import torch

from warpsmith.judge.correctness.oracle import POOL_SIZE, Noise, Oracle, draw_pool
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


@pytest.mark.parametrize("count", [2, 1000, POOL_SIZE, 2 * POOL_SIZE + 3])
@pytest.mark.parametrize("layout", ["plain", "transposed", "expanded"])
def test_noise_goes_through_the_pool_again_and_again(count: int, layout: str) -> None:
    """Element by element from a random place on, in the tensor's own layout."""
    x = torch.arange(2.0 * count, dtype=torch.float64).view(2, count) + 1
    x = {"plain": x, "transposed": x.t(), "expanded": x[:1].expand(2, count)}[layout]
    noise, again = Noise(3), Noise(3)
    got = noise.disturb(x, 1e-3)
    start = int(torch.randint(POOL_SIZE, (), generator=again._generator))
    places = (start + torch.arange(x.numel())) % POOL_SIZE
    wanted = x * (draw_pool(x.device)[places].view(x.shape) * 1e-3 + 1)
    assert torch.allclose(got, wanted, rtol=1e-15, atol=0)
    assert got.stride() == (x * 1.0).stride()
    assert noise.disturb(x, 0.0) is x


class Clamped(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x.sum(1) + x[:, 0]).clamp(min=0.0)


def test_noise_reaches_beyond_a_kink() -> None:
    """A sum some standard deviations of its rounding below zero: honest sums of a billion elements come out above it."""
    torch.manual_seed(0)
    x = torch.randn(4000, 64)
    # From well below zero to well above it, by the same rounding errors.
    x[:, 0] = (torch.linspace(-1e-4, 1e-4, 4000).double() - x[:, 1:].double().sum(1) / 2).float()
    module = Clamped()
    graph = program_graph(export_program(module, (x,), {}, "test.py"), "test.py")
    values = {i.name: x for i in graph.inputs}
    (output,) = (o.value for o in graph.outputs if o.value is not None)
    wide = x.double()
    before = wide.sum(1) + wide[:, 0]
    oracle = Oracle(graph, (output,))
    far, near = (oracle.truths(values, 5, least_draws=24, reach=reach)[output] for reach in (8.0, 1.0))
    linear = before > 1e-4
    size = near.noise[linear].mean()
    assert float(far.noise[linear].mean() / size) == pytest.approx(
        1, rel=0.1
    )  # where nothing is cut off both say the same
    beyond, out_of_reach = (before < -4 * size) & (before > -5 * size), before < -80 * size
    assert beyond.sum() > 10
    assert out_of_reach.any()
    assert float(near.noise[beyond].mean()) < 0.02 * size
    assert float(far.noise[beyond].mean()) > 0.3 * size
    assert not far.noise[out_of_reach].any()


class Float8(torch.nn.Module):
    """float8 inside and as a result."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rows = (x / x.abs().amax(dim=1, keepdim=True) * 448).to(torch.float8_e4m3fn)
        return rows, rows.to(torch.bfloat16).sum(1)


def test_float8_keeps_its_steps_and_only_ties_may_differ() -> None:
    torch.manual_seed(0)
    x = 2.0 * torch.randint(8, 16, (64, 128)) + 0.3  # float8 goes in steps of two here
    x[:, 0], x[:, 1] = 448, 17  # the largest, and a tie
    graph = program_graph(export_program(Float8(), (x,), {}, "test.py"), "test.py")
    values = {i.name: x for i in graph.inputs}
    rows, totals = (o.value for o in graph.outputs if o.value is not None)
    truths = Oracle(graph, (rows, totals)).truths(values, 5)
    native = truths[rows].native
    assert truths[rows].oracle.dtype == native.dtype == torch.float8_e4m3fn
    honest = (truths[rows].noise.float() != native.float()).any(0)
    assert honest[:, 1].float().mean() > 0.9
    assert not honest[:, 2:].any()
    assert native[:, 2:].float().unique().tolist() == [16, 18, 20, 22, 24, 26, 28, 30]
    assert truths[totals].oracle.dtype == torch.float64


class CausalAttention(torch.nn.Module):
    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)


def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, stored: torch.dtype) -> torch.Tensor:
    """Causal attention in float64 but for the probabilities, which are stored between the products, unnormalised as in FlashAttention."""
    query, key, value = query.double(), key.double(), value.double()
    tokens = query.shape[-2]
    scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
    scores = scores.masked_fill(torch.ones(tokens, tokens, dtype=torch.bool).triu(1), -torch.inf)
    weights = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    return (weights.to(stored).double() @ value) / weights.sum(dim=-1, keepdim=True)


def test_probabilities_stored_as_halves_are_honest_noise_of_attention() -> None:
    """In early rows, where few keys share the weight, by much more than the rounding of a small result."""
    torch.manual_seed(0)
    given = [torch.randn(2, 4, 128, 32).bfloat16() for _ in range(3)]
    module = CausalAttention()
    graph = program_graph(export_program(module, tuple(given), {}, "test.py"), "test.py")
    inputs = dict(zip((i.name for i in graph.inputs), given, strict=True))
    outputs = tuple(o.value for o in graph.outputs if o.value is not None)
    truth = Oracle(graph, outputs, ()).truths(inputs, 1)[outputs[0]]
    exact = attend(*given, torch.float64)
    assert torch.allclose(truth.oracle, exact, rtol=1e-9, atol=1e-12)
    missed = attend(*given, torch.bfloat16).bfloat16().double() - exact
    for rows in (slice(1, 16), slice(16, 64), slice(64, 128)):
        ratio = missed[:, :, rows].square().mean().sqrt() / truth.noise[:, :, rows].square().mean().sqrt()
        assert 0.5 < ratio < 1.2, "the noise of each group of rows is its own"


class Gated(torch.nn.Module):
    def __init__(self, approximate: str) -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(x, approximate=self.approximate)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_another_honest_erf_is_within_the_noise_of_gelu(approximate: str) -> None:
    """1 + erf(x / 2^0.5) in the tail loses what a roundoff of erf is; torch's vectorised erf misses by 1.5e-7, its other one by less."""
    torch.manual_seed(0)
    module, x = Gated(approximate), torch.randn(64, 512) * 3
    graph = program_graph(export_program(module, (x,), {}, "test.py"), "test.py")
    (output,) = (o.value for o in graph.outputs if o.value is not None)
    truth = Oracle(graph, (output,)).truths({i.name: x for i in graph.inputs}, 1, least_draws=24)[output]
    cubed = (8 / torch.pi) ** 0.5 / 2 * (x + 0.044715 * x**3)
    term = torch.tanh(cubed) if approximate == "tanh" else torch.erf(x * 0.5**0.5)
    moved = (term * (1 + 2.5 * 2.0**-24)).clamp(-1, 1)  # 1.5e-7, and no less than -1
    other = 0.5 * x * (1 + moved)
    tail = x < -2
    missed = (other.double() - truth.oracle).abs()[tail]
    assert float(truth.noise[tail].square().mean().sqrt()) > float(missed.square().mean().sqrt()) / 2
    assert float(truth.noise[x < -8].max()) < 1e-14  # where nothing is left of it there is no room
    assert float(truth.noise[x > 1].max()) < 2e-6

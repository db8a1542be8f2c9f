"""`torch.compile(backend="warpsmith")` runs the kernels that the archive has for this machine, and inductor everything else."""

from __future__ import annotations

import pytest
import torch
from compiled_models import SCALED_RELU, Net, Tail
from torch import nn

from warpsmith.compiling.backend import Backend, Options
from warpsmith.errors import UsageError

X = torch.randn(8, 16, generator=torch.Generator().manual_seed(0))


def compile_with(backend, module, **kwargs):
    return torch.compile(module, backend=backend, fullgraph=True, dynamic=False, **kwargs)


def test_a_winner_runs_wherever_it_occurs(won):
    backend, net = Backend({"next": "eager"}), Net().eval()
    with torch.no_grad():
        assert torch.allclose(compile_with(backend, net)(X), net(X), atol=1e-6)
    (report,) = backend.explain().graphs
    (use,) = report.kernels
    assert (report.covered, report.operations, len(use.occurrences)) == (6, 9, 2)
    assert use.operator.startswith("warpsmith::scaled_relu_")
    assert "2 times" in str(backend.explain())


def test_its_kernels_are_what_runs(win):
    """A kernel that is wrong on purpose shows in the result."""
    win(Tail(), (torch.randn(8, 32),), SCALED_RELU.replace("SHIFT", "3.0f"), ("mul", "add", "relu"))
    tail, x = Tail(), torch.rand(8, 32)
    with torch.no_grad():
        compiled = compile_with(Backend({"next": "eager"}), tail)(x)
    assert torch.allclose(compiled, tail(x) + 2.0)


def test_the_rest_is_inductors(won):
    backend, net = Backend(), Net().eval()
    with torch.no_grad():
        assert torch.allclose(compile_with(backend, net)(X), net(X), atol=1e-6)
    assert backend.explain().graphs[0].covered == 6


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("shape", "none of 1 winners"), ("dtype", "none of 1 winners"), ("gradients", "gradients are needed"),
        ("autocast", "autocast"), ("constant", "none of 1 winners"),
    ],
)  # fmt: skip
def test_other_calls_are_the_next_backends(won, case, reason):
    backend = Backend({"next": "eager"})
    module = nn.Sequential(Tail()) if case != "constant" else nn.Sequential(nn.Identity(), Shifted())
    x = torch.randn(8, 32)
    x = {"shape": x[:5], "dtype": x.double(), "gradients": x.requires_grad_()}.get(case, x)
    with torch.set_grad_enabled(case == "gradients"), torch.autocast("cpu", enabled=case == "autocast"):
        assert torch.allclose(compile_with(backend, module)(x), module(x))
    (report,) = backend.explain().graphs
    assert not report.kernels
    assert reason in report.reason


class Shifted(nn.Module):
    def forward(self, x):
        return torch.relu(x * 2.0 + 1.5)


def test_gradients_are_the_references_where_kernels_are_asked_for(won):
    backend, net = Backend({"next": "aot_eager", "gradients": True}), Net()
    expected = torch.autograd.grad(net(X).square().sum(), list(net.parameters()))
    actual = torch.autograd.grad(compile_with(backend, net)(X).square().sum(), list(net.parameters()))
    assert backend.explain().graphs[0].covered == 6
    for got, want in zip(actual, expected, strict=True):
        assert torch.allclose(got, want, atol=1e-5)


def test_each_shape_recompiles_and_keeps_what_it_had(won):
    backend, net = Backend({"next": "eager"}), Net().eval()
    compiled = compile_with(backend, net)
    with torch.no_grad():
        for x in (X, X[:3], X):
            assert torch.allclose(compiled(x), net(x), atol=1e-6)
    assert [g.covered for g in backend.explain().graphs] == [6, 0]


def test_dynamic_sizes_are_the_next_backends(won):
    backend, net = Backend({"next": "eager"}), Net().eval()
    with torch.no_grad():
        torch.compile(net, backend=backend, dynamic=True)(X)
    assert "dynamic" in backend.explain().graphs[0].reason


def test_a_winner_of_another_machine_is_not_used(win):
    win(
        Tail(),
        (torch.randn(8, 32),),
        SCALED_RELU.replace("SHIFT", "1.0f"),
        ("mul", "add", "relu"),
        torch="2.9.0",
    )
    backend = Backend({"next": "eager"})
    with torch.no_grad():
        compile_with(backend, Tail())(torch.randn(8, 32))
    assert backend.explain().graphs[0].reason == "the archive has no winner that holds here"


def test_what_a_region_gives_away_must_be_its_output(won):
    """The sum inside of the region is returned, too, so the kernel cannot stand for it."""
    backend = Backend({"next": "eager"})

    def function(x):
        y = x * 2.0 + 1.0
        return torch.relu(y), y

    with torch.no_grad():
        compile_with(backend, function)(torch.randn(8, 32))
    assert not backend.explain().graphs[0].kernels


def test_updates_of_buffers_are_kept(won):
    class Counted(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))
            self.tail = Tail()

        def forward(self, x):
            self.calls += 1
            return self.tail(x)

    backend, module = Backend({"next": "eager"}), Counted()
    with torch.no_grad():
        compiled = compile_with(backend, module)
        compiled(torch.randn(8, 32))
        compiled(torch.randn(8, 32))
    assert backend.explain().graphs[0].covered == 3
    assert module.calls == 2


def test_a_missing_archive_that_is_named_is_an_error(settings):
    with pytest.raises(UsageError, match="there is no archive at"):
        Options.parse({"archive": str(settings)}).config()


def test_a_wrong_time_to_search_is_an_error():
    with pytest.raises(UsageError, match="no time to search"):
        Backend({"search": "soon"})

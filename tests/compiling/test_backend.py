"""`torch.compile(backend="warpsmith")` runs the kernels that the archive has for this machine, and inductor everything else."""

from __future__ import annotations

import pytest
import torch
from compiled_models import SCALED_RELU, Net, Tail
from stated_winners import make_candidate, make_result
from torch import nn

from warpsmith.archive.store import Archive
from warpsmith.compiling.backend import Backend, Options
from warpsmith.errors import UsageError
from warpsmith.machine import describe
from warpsmith.tasks.memory import task_from_module

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


class Branches(nn.Module):
    """Two branches that end alike, as those of keys and values do in a backward pass."""

    def forward(self, x, y):
        return torch.relu(x), torch.relu(y * 2.0 + 1.0)


RELU = SCALED_RELU.replace("* 2.0f + SHIFT", "").replace("scaled-relu", "relu")


def test_a_small_kernel_leaves_a_larger_one_its_place(settings, tmp_path):
    """The winner of a whole graph fits that graph, though its first kernel also occurs in its second one."""
    module, args = Branches(), (torch.randn(8, 32), torch.randn(8, 32))
    task, environment = task_from_module(module, args, {}, tmp_path / "exports"), describe()
    first, *rest = [n.name for n in task.graph.nodes]
    units = [
        make_candidate(task, source, nodes).units[0]
        for source, nodes in ((RELU, [first]), (SCALED_RELU.replace("SHIFT", "1.0f"), rest))
    ]
    candidate = make_candidate(task, RELU, [first]).model_copy(update={"units": tuple(units)})
    archive = Archive(settings)
    archive.begin_run("run", task, "cpu", 0, {}, environment)
    archive.add_confirmation("run", candidate, make_result(candidate, environment.id))
    archive.close()
    backend = Backend({"next": "eager"})
    with torch.no_grad():
        for actual, expected in zip(compile_with(backend, module)(*args), module(*args), strict=True):
            assert torch.allclose(actual, expected)
    (report,) = backend.explain().graphs
    assert [use.technique for use in report.kernels] == ["relu", "scaled-relu"], backend.explain()


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


class Twice(nn.Module):
    def forward(self, x):
        return torch.relu(torch.relu(x * 2.0 + 1.0) * 2.0 + 1.0)


def test_a_winner_that_has_a_kernel_for_each_of_two_equal_layers_is_used(settings, tmp_path):
    """Each of its kernels fits both places; that the first one takes both is no reason to refuse the second."""
    x = torch.randn(8, 32)
    task = task_from_module(Twice(), (x,), {}, tmp_path / "exports")
    names = [n.name for n in task.graph.nodes]
    source = SCALED_RELU.replace("SHIFT", "1.0f")
    first, second = (make_candidate(task, source, nodes) for nodes in (names[:3], names[3:]))
    candidate = first.model_copy(update={"units": (*first.units, *second.units)})
    archive = Archive(settings)
    archive.begin_run("twice", task, "cpu", 0, {}, describe())
    archive.add_confirmation("twice", candidate, make_result(candidate, describe().id))
    archive.close()
    backend = Backend({"next": "eager"})
    with torch.no_grad():
        assert torch.allclose(compile_with(backend, Twice())(x), Twice()(x))
    (report,) = backend.explain().graphs
    assert report.covered == 6, report
    assert [len(use.occurrences) for use in report.kernels] == [2]


def test_a_fault_of_ours_leaves_the_model_to_the_next_backend(won, monkeypatch, caplog):
    def fail(*arguments, **keywords):
        raise KeyError("nowhere")

    monkeypatch.setattr("warpsmith.compiling.backend.substitute", fail)
    backend = Backend({"next": "eager"})
    x = torch.randn(8, 32)
    with torch.no_grad():
        assert torch.allclose(compile_with(backend, Tail())(x), Tail()(x))
    assert backend.explain().graphs[0].reason == "it could not be looked at: KeyError: 'nowhere'"
    assert "could not be looked at" in caplog.text


class Literal(nn.Module):
    """Half the head of a relative attention: a tensor of Python numbers in forward."""

    def forward(self, x):
        return torch.relu(x * 2.0 + 1.0) * torch.tensor([0.5, 2.0]).repeat(16), None


@pytest.mark.parametrize("training", [False, True])
def test_a_graph_that_holds_a_tensor_of_its_own_keeps_it(won, training):
    backend, x = Backend({"next": "eager", "training": training}), torch.randn(8, 32, requires_grad=training)
    compiled = compile_with(backend, Literal())
    with torch.set_grad_enabled(training):
        answer, nothing = compiled(x)
        assert torch.allclose(answer, Literal()(x)[0])
    assert nothing is None
    assert sum(g.covered for g in backend.explain().graphs) == 3, backend.explain()
    if training:
        answer.sum().backward()
        (expected,) = torch.autograd.grad(Literal()(x)[0].sum(), x)
        assert torch.allclose(x.grad, expected)


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


@pytest.mark.parametrize("training", ["yes", 1.5, "forwards"])
def test_a_half_that_there_is_not_is_refused(training):
    with pytest.raises(UsageError, match='training is True, False, "forward" or "backward"'):
        Options.parse({"training": training})


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

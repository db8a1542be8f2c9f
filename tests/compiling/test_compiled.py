"""`warpsmith.compile`, its decorator, what it explains, and the entry point by which torch finds the backend."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch
from compiled_models import SCALED_RELU, Net, Tail

import warpsmith
from warpsmith.errors import TaskError, UsageError

X = torch.randn(8, 16, generator=torch.Generator().manual_seed(0))
EAGER = {"next": "eager"}
ROOT = Path(__file__).resolve().parents[2]


def test_example_inputs_compile_at_once_and_it_explains_itself(won):
    net = Net().eval()
    compiled = warpsmith.compile(net, X, options=EAGER, fullgraph=True)
    text = str(compiled.explain())
    assert text.startswith("graph 0: 6 of 9 operations by verified kernels")
    assert "scaled-relu of Tail, 2.00x" in text
    assert "in place of mul, add, relu" in text
    with torch.no_grad():
        assert torch.allclose(compiled(X), net(X), atol=1e-6)


def test_nothing_is_compiled_before_the_first_call(won):
    compiled = warpsmith.compile(Net().eval(), options=EAGER)
    assert str(compiled.explain()) == "nothing is compiled yet: call it once"


def test_a_compiled_module_is_a_module(won):
    net = Net().eval()
    compiled = warpsmith.compile(net, X, options=EAGER)
    assert list(compiled.state_dict()) == list(net.state_dict())
    compiled.load_state_dict({k: v * 0 for k, v in net.state_dict().items()})
    assert compiled.first.weight.abs().sum() == 0
    for again in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
        with torch.no_grad():
            assert torch.allclose(again(X), net(X))
        assert again.explain().graphs[0].covered == 6


@pytest.mark.parametrize("with_arguments", [False, True])
def test_a_decorator_compiles_functions_and_methods(won, with_arguments):
    decorator = warpsmith.compile(options=EAGER) if with_arguments else warpsmith.compile

    @decorator
    def function(x):
        """Double and shift."""
        return torch.relu(x * 2.0 + 1.0)

    class Holder:
        @decorator
        def method(self, x):
            return torch.relu(x * 2.0 + 1.0)

    x = torch.randn(8, 32)
    with torch.no_grad():
        assert torch.allclose(function(x), Tail()(x))
        assert torch.allclose(Holder().method(x), Tail()(x))
    assert (function.__name__, function.__doc__) == ("function", "Double and shift.")
    assert function.explain().graphs[0].covered == 3


def test_what_is_neither_a_module_nor_a_function_is_refused():
    with pytest.raises(TaskError, match="build the module first"):
        warpsmith.compile(Net)
    with pytest.raises(UsageError, match="gradients is True or False"):
        warpsmith.compile(options={"gradients": "yes"})


def test_torch_finds_the_backend_without_an_import_of_ours(settings, tmp_path):
    """The entry point of pyproject.toml, in the form that an installed distribution has it."""
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    info = tmp_path / "announced-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: announced\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[torch_dynamo_backends]\n"
        + "".join(f"{k} = {v}\n" for k, v in points["torch_dynamo_backends"].items())
    )
    code = (
        "import sys, torch; assert 'warpsmith' not in sys.modules\n"
        "f = torch.compile(lambda x: torch.relu(x), backend='warpsmith', options={'next': 'eager'})\n"
        "print(float(f(torch.ones(2)).sum()), 'warpsmith' in sys.modules)"
    )
    paths = [str(tmp_path), str(ROOT / "src")]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {paths!r}\n{code}"], capture_output=True, text=True, timeout=240
    )  # fmt: skip
    assert done.stdout.split() == ["2.0", "True"], done.stderr[-2000:]


def test_a_search_while_compiling_is_of_the_graph_and_goes_to_the_archive(settings, monkeypatch, win):
    """The search itself is `warpsmith.optimize`; here one that wins at once stands for it."""
    asked = []

    def optimize(module, inputs, *, budget, config, progress):
        asked.append((tuple(inputs[0].shape), budget, config.archive))
        win(Tail(), (torch.randn(8, 32),), SCALED_RELU.replace("SHIFT", "1.0f"), ("mul", "add", "relu"))
        return type("Result", (), {"report": lambda self: "2.00x over eager"})()

    monkeypatch.setattr("warpsmith.compiling.backend.optimize", optimize)
    compiled = warpsmith.compile(Tail(), torch.randn(8, 32), options={**EAGER, "search": "2m"})
    (report,) = compiled.explain().graphs
    assert asked == [((8, 32), "2m", settings)]
    assert (report.covered, report.search) == (3, "2.00x over eager")

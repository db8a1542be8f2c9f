"""The exported file does what KernelBench asks of a solution: same seed, same weights, same outputs."""

from __future__ import annotations

import ast
from typing import Any

import pytest
import torch
from exported_task import TASK

from warpsmith.errors import UsageError
from warpsmith.export import to_kernelbench

TOLERANCE = 1e-4  # KernelBench's for fp32, absolute and relative


def leaves(output: Any) -> list[torch.Tensor]:
    return [t for t in torch.utils._pytree.tree_leaves(output) if isinstance(t, torch.Tensor)]


@pytest.fixture(scope="module")
def text(task, candidate, target) -> str:
    return to_kernelbench(task, candidate, target, 'Proof with """quotes""" and \\ in it')


@pytest.fixture(scope="module")
def context(text, tmp_path_factory) -> dict[str, Any]:
    """Both files executed in one namespace, the task's first, as KernelBench does."""
    patch = pytest.MonkeyPatch()
    patch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path_factory.mktemp("extensions")))
    namespace: dict[str, Any] = {}
    exec(compile(TASK, "task.py", "exec"), namespace)
    namespace["before"] = dict(namespace)
    exec(compile(text, "solution.py", "exec"), namespace)
    yield namespace
    patch.undo()


def seeded(kind: Any, *args: Any) -> torch.nn.Module:
    torch.manual_seed(42)
    return kind(*args)


@pytest.mark.slow
def test_same_seed_same_weights_same_outputs_and_same_buffers(context):
    with torch.no_grad():
        reference = seeded(context["Model"], *context["get_init_inputs"]())
        solution = seeded(context["ModelNew"], *context["get_init_inputs"]()).to(
            device="cpu", dtype=torch.float32
        )
        assert list(solution.state_dict()) == list(reference.state_dict())
        assert all(map(torch.equal, solution.state_dict().values(), reference.state_dict().values()))
        for seed in range(3):
            torch.manual_seed(seed)
            inputs = context["get_inputs"]()
            expected, got = reference(*inputs), solution(*[i.clone() for i in inputs])
            assert type(got) is tuple
            assert list(got[1]) == ["sum"]
            for e, g in zip(leaves(expected), leaves(got), strict=True):
                assert e.shape == g.shape
                torch.testing.assert_close(g, e, atol=TOLERANCE, rtol=TOLERANCE)
        for name, value in reference.state_dict().items():
            torch.testing.assert_close(solution.state_dict()[name], value, atol=1e-6, rtol=1e-5)
        assert solution.norm.num_batches_tracked == 3


@pytest.mark.slow
def test_the_reference_is_never_called_and_nothing_of_the_task_is_replaced(context, monkeypatch):
    solution = context["ModelNew"](16)
    with torch.no_grad():
        monkeypatch.setattr(torch.nn.Linear, "forward", lambda *_: pytest.fail("the reference ran"))
        solution(*context["get_inputs"]())
    own = {"Model", "get_inputs", "get_init_inputs", "batch_size", "features"}
    assert all(context[name] is context["before"][name] for name in own)


@pytest.mark.slow
def test_another_shape_is_refused_in_one_line(context):
    with pytest.raises(
        ValueError,
        match=r"x is torch.float32\[3, 37\] on cpu; the kernels were generated for float32\[61, 37\]",
    ):
        context["ModelNew"](16)(torch.randn(3, 37), torch.randn(16, 61))


def test_the_file_is_python_without_warpsmith_and_forward_has_its_names(text):
    tree = ast.parse(text)
    imported = [a.name for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom) for a in n.names]
    assert not any("warpsmith" in name for name in imported)
    assert "def forward(self, x, y):" in text
    assert "-DSTEP=16" in text
    assert '#include "' not in text


def test_constants_are_those_that_were_optimized_for(task, candidate, target):
    main = task.main.model_copy(update={"overrides": {"features": 37, "batch_size": 5}})
    changed = task.model_copy(update={"variants": (main,)})
    assert "batch_size = 5\n" in to_kernelbench(changed, candidate, target)


def test_a_task_from_memory_has_no_file(task, candidate, target):
    source = task.source.model_copy(update={"kind": "memory", "text": ""})
    with pytest.raises(UsageError, match="--as package"):
        to_kernelbench(task.model_copy(update={"source": source}), candidate, target)

"""The exported package runs without warpsmith: kernels where they apply, the user's module elsewhere."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from exported_task import TASK

from warpsmith.errors import ToolchainError, UsageError
from warpsmith.export import to_package
from warpsmith.records import Candidate

NAME = "gate_fast"


def make_model(seed: int = 0) -> torch.nn.Module:
    namespace: dict[str, Any] = {}
    exec(compile(TASK, "task.py", "exec"), namespace)
    torch.manual_seed(seed)
    return namespace["Model"](16)


def make_inputs() -> list[torch.Tensor]:
    torch.manual_seed(1)
    return [torch.randn(61, 37), torch.randn(16, 61)]


@pytest.fixture
def exported(task, candidate, target, tmp_path, monkeypatch) -> Path:
    folder = to_package(task, candidate, target, tmp_path / "out", NAME, 'Proof: 1.24× "best"')
    monkeypatch.syspath_prepend(str(tmp_path / "out"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in [n for n in sys.modules if n.partition(".")[0] == NAME]:
        monkeypatch.delitem(sys.modules, name)
    return folder


def load(exported: Path, model: torch.nn.Module) -> Any:
    importlib.invalidate_caches()
    for name in [n for n in sys.modules if n.partition(".")[0] == NAME]:
        del sys.modules[name]
    return importlib.import_module(NAME).optimized(model)


def same(got: Any, expected: Any) -> bool:
    pairs = ((got[0], expected[0]), (got[1]["sum"], expected[1]["sum"]))
    return type(got) is tuple and all(torch.allclose(g, e, atol=1e-5, rtol=1e-5) for g, e in pairs)


def test_it_answers_like_the_original_through_its_kernels(exported):
    model, reference = make_model(), make_model()
    fast = load(exported, model)
    inputs = make_inputs()
    with torch.no_grad():
        assert same(fast(*inputs), reference(*inputs))
    assert (fast.active, fast.fast_calls, fast.fallbacks) == (True, 1, 0)
    assert list(fast.state_dict()) == list(model.state_dict())
    assert torch.equal(model.norm.running_mean, reference.norm.running_mean)


def test_units_without_code_need_no_library(task, candidate, target, tmp_path, monkeypatch):
    rewritten = candidate.model_copy(update={"units": (candidate.units[1],)})
    assert not rewritten.compiled
    folder = to_package(task, rewritten, target, tmp_path / "out", NAME)
    monkeypatch.syspath_prepend(str(tmp_path / "out"))
    fast, reference, inputs = load(folder, make_model()), make_model(), make_inputs()
    with torch.no_grad():
        assert same(fast(*inputs), reference(*inputs))
    assert (fast.active, fast.fast_calls, fast.fallbacks) == (True, 1, 0)
    assert "reciprocal" in (folder / "_program.py").read_text()
    assert not (folder / "lib").exists()


def test_parameters_are_shared(exported):
    model, reference = make_model(), make_model(5)
    fast = load(exported, model)
    model.load_state_dict(reference.state_dict())
    with torch.no_grad():
        assert same(fast(*make_inputs()), reference(*make_inputs()))
    assert fast.fast_calls == 1


@pytest.mark.parametrize("case", ["shape", "dtype", "gradients", "mode"])
def test_other_calls_go_to_the_original(exported, case):
    model = make_model()
    fast = load(exported, model)
    inputs = make_inputs()
    if case == "shape":
        inputs = [inputs[0][:5], inputs[1][:, :5]]
    if case == "dtype":
        model.double()
        inputs = [i.double() for i in inputs]
    if case == "mode":
        model.eval()
    with torch.set_grad_enabled(case == "gradients"):
        out = fast(*inputs)
    assert (fast.fast_calls, fast.fallbacks) == (0, 1)
    assert out[0].requires_grad == (case == "gradients")


def test_strided_inputs_are_made_to_match(exported):
    model, reference = make_model(), make_model()
    x, y = make_inputs()
    with torch.no_grad():
        out = load(exported, model)(x.t().contiguous().t(), torch.stack([y, y], -1)[..., 0])
        assert same(out, reference(x, y))


def test_kernels_for_another_processor_are_rebuilt_once(exported):
    manifest = json.loads((exported / "manifest.json").read_text())
    manifest["processor"].append("an-extension-of-the-future")
    (exported / "manifest.json").write_text(json.dumps(manifest))
    for library in (exported / "lib").iterdir():
        library.write_bytes(b"not for this machine")
    with torch.no_grad():
        fast = load(exported, make_model())
        assert same(fast(*make_inputs()), make_model()(*make_inputs()))
    assert fast.active
    built = list((exported.parent.parent / "cache" / NAME).glob("*.so"))
    assert len(built) == 2


def test_without_a_compiler_the_original_runs_and_says_why(exported, monkeypatch):
    manifest = json.loads((exported / "manifest.json").read_text())
    manifest["machine"] = "another"
    (exported / "manifest.json").write_text(json.dumps(manifest))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("CXX", "no-such-compiler")
    model = make_model()
    with pytest.warns(UserWarning, match="no C\\+\\+ compiler to rebuild them"):
        fast = load(exported, model)
    with torch.no_grad():
        assert same(fast(*make_inputs()), make_model()(*make_inputs()))
    assert (fast.active, fast.fallbacks) == (False, 1)


def test_a_library_that_does_not_load_falls_back(exported):
    (exported / "lib" / "unit0.so").write_bytes(b"junk")
    with pytest.warns(UserWarning, match="the original module runs"):
        fast = load(exported, make_model())
    assert not fast.active


@pytest.mark.slow
def test_it_needs_nothing_of_warpsmith(exported):
    code = (
        "import sys; sys.modules['warpsmith'] = None\n"
        f"import {NAME}; assert not [m for m in sys.modules if m.startswith('warpsmith.')]; print('ok')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=exported.parent, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.strip() == "ok", done.stderr


def test_the_project_is_complete(exported):
    project = tomllib.loads((exported.parent / "pyproject.toml").read_text())
    assert project["project"]["dependencies"] == ["torch>=2.9"]
    assert project["tool"]["setuptools"]["packages"] == [NAME]
    assert 'Proof: 1.24× "best"' in (exported.parent / "README.md").read_text()
    shipped = {
        str(p.relative_to(exported)) for p in exported.rglob("*") if p.is_file() and p.suffix != ".pyc"
    }
    assert shipped == {
        "__init__.py", "_calls.py", "_kernels.py", "_operators.py", "_program.py", "_reference.py", "_register.py", "_runtime.py",
        "_structure.py", "manifest.json", "csrc/warpsmith_simd.h",
        "lib/unit0.so", "lib/unit1.so",
        "csrc/unit0/unit.cpp", "csrc/unit0/task.h", "csrc/unit1/unit.cpp", "csrc/unit1/task.h",
    }  # fmt: skip


def test_bad_requests_are_one_line(task, candidate, target, tmp_path):
    with pytest.raises(UsageError, match="no name for a Python package"):
        to_package(task, candidate, target, tmp_path, "not-a-name")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot write"):
        to_package(task, candidate, target, tmp_path / "file", "name")
    broken = candidate.units[0].model_copy(update={"source": '#include "task.h"\nint'})
    with pytest.raises(ToolchainError, match="does not build here"):
        to_package(
            task, Candidate(task_id=task.id, target="cpu", units=(broken,)), target, tmp_path / "b", "name"
        )


class Pair(NamedTuple):
    gate: torch.Tensor
    rest: Any


def test_classes_of_results_are_learnt_from_the_first_call(exported):
    manifest = json.loads((exported / "manifest.json").read_text())
    tree, rest = manifest["tree"]["tuple"]
    manifest["tree"] = {"object": {"make": "new", "of": f"{__name__}:Pair", "args": [tree, rest]}}
    (exported / "manifest.json").write_text(json.dumps(manifest))
    model, forward = make_model(), make_model().forward
    model.forward = lambda x, y: Pair(*type(model).forward(model, x, y))
    fast, inputs = load(exported, model), make_inputs()
    with torch.no_grad():
        first, second = fast(*inputs), fast(*inputs)
    assert (fast.fallbacks, fast.fast_calls) == (1, 1)
    assert type(first) is type(second) is Pair
    torch.testing.assert_close(second.gate, forward(*inputs)[0].detach(), atol=1e-3, rtol=1e-3)


def test_another_class_of_results_ends_the_use_of_the_kernels(exported):
    manifest = json.loads((exported / "manifest.json").read_text())
    manifest["tree"] = {"object": {"make": "call", "of": "os:system", "args": manifest["tree"]["tuple"]}}
    (exported / "manifest.json").write_text(json.dumps(manifest))
    fast, inputs = load(exported, make_model()), make_inputs()
    with torch.no_grad():
        fast(*inputs)
        fast(*inputs)
    assert (fast.fallbacks, fast.active) == (2, False)
    assert "returns something else" in fast.reason

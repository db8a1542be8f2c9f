"""A wheel in an environment with torch alone, the Hugging Face `kernels` library, and a patch of the user's file."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from exported_task import TASK
from packaging.requirements import Requirement

from warpsmith.errors import UsageError
from warpsmith.export import to_hf_kernel, to_package, to_patch
from warpsmith.records import TaskSource

CHECK = """
import sys, torch
assert "warpsmith" not in sys.modules
namespace = {{}}
exec(open("task.py").read(), namespace)
torch.manual_seed(0)
model = namespace["Model"](16)
import copy
reference, inputs = copy.deepcopy(model), namespace["get_inputs"]()
{load}
assert operator is not None
with torch.no_grad():
    fast = optimized(model)
    answer, expected = fast(*inputs), reference(*inputs)
    torch.testing.assert_close(answer, expected, atol=1e-5, rtol=1e-5)
    assert fast.fast_calls == 1, fast.reason
state = dict(reference.named_parameters()) | dict(reference.named_buffers())
reads = [item for item in fast.manifest["reads"] if item["kind"] != "literal"]
waiting = iter(inputs)
tensors = [next(waiting) if item["kind"] == "input" else state[item["name"]].detach().clone() for item in reads]
plain = copy.deepcopy(tensors)
torch.library.opcheck(operator, tuple(copy.deepcopy(tensors)))
with torch.no_grad():
    results = torch.compile(lambda *t: operator(*t), fullgraph=True, backend="aot_eager")(*tensors)
    again = reference(*inputs)
print("right", type(results).__name__, len(results))
"""


def requirements_of(name: str, names: set[str]) -> set[str]:
    """The distributions that one needs, itself among them."""
    if name not in names:
        names.add(name)
        for line in importlib.metadata.requires(name) or ():
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                requirements_of(requirement.name, names)
    return names


@pytest.fixture(scope="session")
def torch_alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with torch and what it needs, and nothing else."""
    folder = tmp_path_factory.mktemp("torch-alone")
    for name in requirements_of("torch", set()):
        for file in importlib.metadata.files(name) or ():
            top = file.parts[0]
            if top != ".." and not (folder / top).exists():
                (folder / top).symlink_to(Path(str(file.locate())).parents[len(file.parts) - 1] / top)
    return folder


def run_alone(code: str, folder: Path, *paths: Path) -> subprocess.CompletedProcess[str]:
    """Run code in a process that sees these folders and the standard library."""
    head = f"import sys; sys.path[:0] = {[str(p) for p in paths]!r}; sys.modules['warpsmith'] = None\ndel sys.modules['warpsmith']\n"
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", head + code],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
    )


def test_a_wheel_runs_in_an_environment_with_torch_alone(task, candidate, target, tmp_path, torch_alone):
    to_package(task, candidate, target, tmp_path / "out", "gate_wheel")
    (wheel,) = (tmp_path / "out" / "dist").glob("*.whl")
    installed = tmp_path / "installed"
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--no-deps",
        "--no-index",
        "--target",
        str(installed),
        str(wheel),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    (tmp_path / "task.py").write_text(TASK)
    code = CHECK.format(load="from gate_wheel import operator, optimized")
    done = run_alone(code, tmp_path, installed, torch_alone)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith("right tuple 2")
    unreachable = run_alone("import warpsmith", tmp_path, installed, torch_alone)
    assert "No module named 'warpsmith'" in unreachable.stderr


def test_equal_packages_make_equal_wheels(task, candidate, target, tmp_path):
    wheels = []
    for place in ("a", "b"):
        to_package(task, candidate, target, tmp_path / place, "gate_equal")
        wheels += (tmp_path / place / "dist").glob("*.whl")
    assert wheels[0].read_bytes() == wheels[1].read_bytes()


@pytest.mark.skipif(
    importlib.util.find_spec("kernels") is None, reason="the library kernels is not installed"
)
def test_the_library_kernels_loads_the_folder(task, candidate, target, tmp_path):
    folder = to_hf_kernel(task, candidate, target, tmp_path / "gate_hub", "gate_hub")
    readme = (folder / "README.md").read_text()
    assert "library_name: kernels" in readme
    assert 'get_local_kernel(Path("gate_hub"), backend="cpu")' in readme
    (tmp_path / "task.py").write_text(TASK)
    load = (
        "from pathlib import Path; from kernels import get_local_kernel; kernel = get_local_kernel(Path('gate_hub'), backend='cpu')\n"
        "operator, optimized = kernel.operator, kernel.optimized"
    )
    environment = {"HF_HUB_OFFLINE": "1", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", CHECK.format(load=load)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith("right tuple 2")


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """A folder of the user's with the task's file, as a repository of git."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "gate.py").write_text(TASK)
    subprocess.run(["git", "init", "-q", "."], cwd=folder, check=True)
    monkeypatch.chdir(folder)
    return folder


def test_a_patch_applies_verifies_and_is_taken_back(task, candidate, target, project, torch_alone):
    out = to_patch(task, candidate, target, project / "patch", "Proof: 1.24×", project / "gate.py")
    page = (out / "CHANGE.md").read_text()
    assert "+@accelerated" in page
    assert "Proof: 1.24×" in page
    assert "in place of relu.default" in page
    assert "float32, shape [61, 37], on cpu" in page
    assert (project / "gate.py").read_text() == TASK
    shutil.copytree(out / "gate_kernels", project / "gate_kernels")
    subprocess.run(["git", "apply", "patch/change.patch"], cwd=project, check=True)
    assert "@accelerated\nclass Model" in (project / "gate.py").read_text()
    code = f"import runpy; sys.argv = ['verify.py']; runpy.run_path({str(out / 'verify.py')!r}, run_name='__main__')"
    done = run_alone(code, project, torch_alone)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert done.stdout.startswith("1 call by kernels; largest relative difference")
    subprocess.run(["git", "apply", "-R", "patch/change.patch"], cwd=project, check=True)
    assert (project / "gate.py").read_text() == TASK


def test_a_patched_class_copies_trains_and_answers_other_calls(task, candidate, target, project, monkeypatch):
    import copy
    import pickle

    import torch

    out = to_patch(task, candidate, target, project / "patch", source=project / "gate.py")
    shutil.copytree(out / "gate_kernels", project / "gate_kernels")
    subprocess.run(["git", "apply", "patch/change.patch"], cwd=project, check=True)
    monkeypatch.syspath_prepend(str(project))
    module = importlib.import_module("gate")
    model, inputs = module.Model(16), module.get_inputs()
    with torch.no_grad():
        model(*inputs)
        model(inputs[0][:5], inputs[1][:, :5])
        again = pickle.loads(pickle.dumps(copy.deepcopy(model)))
        again(*inputs)
    assert (model.kernel_calls, again.kernel_calls) == (1, 1)
    model(*inputs)[0].sum().backward()
    assert model.linear.weight.grad is not None
    assert list(model.state_dict()) == list(module.Model.__base__.state_dict(model))
    assert model.kernel_calls == 1


def test_a_patch_needs_the_users_file(task, candidate, target, tmp_path):
    live = task.model_copy(update={"source": TaskSource(kind="memory", path="gate", entry="Gate")})
    with pytest.raises(UsageError, match="name the file that defines it with --source"):
        to_patch(live, candidate, target, tmp_path / "patch")
    (tmp_path / "other.py").write_text("x = 1\n")
    with pytest.raises(UsageError, match="defines no class Gate"):
        to_patch(live, candidate, target, tmp_path / "patch", source=tmp_path / "other.py")
    assert not (tmp_path / "patch").exists()

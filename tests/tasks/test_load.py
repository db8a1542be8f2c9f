"""Task files through a real confined host process: good ones, variants, values, and every bad kind."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from warpsmith import machine
from warpsmith.errors import TaskError, UsageError
from warpsmith.processes.buffers import Scratch, ValuesFile
from warpsmith.processes.forked import Forked
from warpsmith.processes.worker import Worker
from warpsmith.records import TaskSource
from warpsmith.tasks import client
from warpsmith.tasks.client import TaskHost
from warpsmith.tasks.load import load_suite, load_task, read_source

SOFTMAX = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(features))

    def forward(self, x):
        return torch.softmax(x * self.scale, dim=1)

batch_size = 64
features = 256

def get_inputs():
    return [torch.rand(batch_size, features)]

def get_init_inputs():
    return [features]
"""


@pytest.fixture(scope="module")
def scratch() -> Iterator[Scratch]:
    with Scratch() as made:
        yield made


@pytest.fixture(scope="module")
def host(scratch: Scratch) -> Iterator[TaskHost]:
    """One process for many bad files: an error leaves it alive."""
    with TaskHost(
        TaskSource(kind="kernelbench", path="task.py", text=""), scratch=scratch, timeout=60
    ) as made:
        yield made


def test_file_loads_with_small_derived_variants(tmp_path: Path, scratch: Scratch) -> None:
    path = tmp_path / "softmax.py"
    path.write_text(SOFTMAX)
    task = load_task(str(path), scratch=scratch, overrides={"batch_size": 32})
    assert task.name == "softmax"
    assert task.main.overrides == {"batch_size": 32}
    assert [n.op for n in task.graph.nodes] == ["aten.mul.Tensor", "aten._softmax.default"]
    assert task.graph.specs["x"].shape == (32, 256)
    assert [v.name for v in task.variants] == ["main", "ragged", "small"]
    rows, columns = task.variant("ragged").graph.specs["x"].shape
    assert rows % 2 == 1
    assert columns % 2 == 1
    assert all(v.graph.least_bytes <= task.graph.least_bytes for v in task.variants)


def test_a_cache_that_the_user_set_is_not_needed(
    tmp_path: Path, scratch: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "never" / name))
    (tmp_path / "task.py").write_text(SOFTMAX)
    assert load_task(str(tmp_path / "task.py"), scratch=scratch).graph.nodes
    assert not (tmp_path / "never").exists()


@pytest.mark.skipif(machine.gpu() is not None, reason="with CUDA it may start a thread")
def test_what_an_export_takes_is_imported_before_a_host_is_forked(
    tmp_path: Path, scratch: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And by a process that can still fork then."""
    hosts = []

    class Noted(Worker):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            hosts.append((named["preload"], self.process))

    monkeypatch.setattr(client, "Worker", Noted)
    (tmp_path / "task.py").write_text(SOFTMAX)
    load_task(str(tmp_path / "task.py"), scratch=scratch)
    ((preload, process),) = hosts
    assert client.EXPORTER in preload
    assert find_spec(client.EXPORTER) is not None
    assert isinstance(process, Forked)


def test_declared_variants_and_huge_sizes_allocate_nothing(tmp_path: Path, scratch: Scratch) -> None:
    path = tmp_path / "huge.py"
    text = SOFTMAX.replace("batch_size = 64", "batch_size = 1000 * 1000000")
    path.write_text(text + 'VARIANTS = {"odd": {"batch_size": 3, "features": 9}}\n')
    task = load_task(str(path), scratch=scratch, memory_bytes=2 << 30)
    assert task.graph.specs["x"].nbytes > 10**12
    assert [v.name for v in task.variants] == ["main", "odd"]
    assert task.variant("odd").graph.specs["x"].shape == (3, 9)


def test_values_are_the_modules_own_and_follow_the_seed(scratch: Scratch, host: TaskHost) -> None:
    host.source = TaskSource(kind="kernelbench", path="task.py", text=SOFTMAX)
    graph = host.export({})
    from warpsmith.records import Variant

    files = []
    for seed in (1, 1, 2):
        path = scratch.new("values")
        host.materialise(Variant(name="main", overrides={}, graph=graph), seed, path)
        files.append([a.copy() for a in ValuesFile(path, [i.spec for i in graph.inputs]).arrays()])
    assert all(np.array_equal(a, b) for a, b in zip(files[0], files[1], strict=True))
    assert not any(np.array_equal(a, b) for a, b in zip(files[0], files[2], strict=True))
    assert all(a.min() >= 0 and a.max() < 1 for a in files[0])


def with_text(change: str, to: str) -> str:
    assert change in SOFTMAX
    return SOFTMAX.replace(change, to)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (with_text("class Model", "class Modell"), "defines no class Model"),
        (with_text("class Model(nn.Module)", "class Model"), "not a subclass|failed"),
        (with_text("def get_inputs", "def get_input"), r"defines no get_inputs\(\)"),
        (with_text("return [torch.rand(batch_size, features)]", "return 5"), "must return a list"),
        (with_text("return [torch.rand(batch_size, features)]", "return [1, 2]"), "returns no tensor"),
        (
            with_text("return [torch.rand(batch_size, features)]", "return [torch.rand(2, 256)] * 2"),
            "does not match forward",
        ),
        (
            with_text("rand(batch_size, features)", "rand(batch_size, 7)"),
            r"RuntimeError.*task\.py:11 in forward",
        ),
        (with_text("return [features]", "return [features, 1]"), r"building Model.*TypeError"),
        (
            with_text("batch_size = 64", "batch_size = 1 // 0"),
            r"running the file failed: ZeroDivisionError.*:13",
        ),
        (with_text("batch_size = 64", "raise SystemExit(3)"), "running the file failed: SystemExit"),
        (
            with_text("import torch\n", "import torch, no_such_thing.inner\n"),
            r"the package no_such_thing is not installed \(task\.py:2 .*: pip install no_such_thing",
        ),
        (with_text("batch_size = 64", "x = bytearray(100 << 30)"), "more memory than the limit"),
    ],
)
def test_bad_files_get_one_clear_line(host: TaskHost, text: str, words: str) -> None:
    host.source = TaskSource(kind="kernelbench", path="task.py", text=text)
    with pytest.raises(TaskError, match=words) as caught:
        host.export({})
    assert "\n" not in str(caught.value)
    assert "task.py" in str(caught.value)


def test_dropout_layers_are_switched_off_and_said_so(host: TaskHost) -> None:
    text = with_text("torch.softmax(x * self.scale, dim=1)", "self.drop(x * self.scale)")
    text = text.replace("super().__init__()", "super().__init__(); self.drop = nn.Dropout(0.5)")
    host.source = TaskSource(kind="kernelbench", path="task.py", text=text)
    assert "aten.native_dropout.default" not in {n.op for n in host.export({}).nodes}
    assert "Dropout switched off" in host.note


def test_literals_and_plain_tensors_under_fake_tensors(host: TaskHost) -> None:
    text = with_text("super().__init__()", "super().__init__(); self.state = torch.randn(3, 1)")
    text = text.replace("dim=1)", "dim=1).minimum(torch.tensor(0.5)) + self.state.sum()")
    host.source = TaskSource(kind="kernelbench", path="task.py", text=text)
    inputs = {i.target: i for i in host.export({}).inputs}
    assert inputs["state"].role == "buffer"
    assert base64.b64decode(inputs["lifted_tensor_0"].data) == np.float32(0.5).tobytes()


def test_literals_of_a_module_within_the_module_are_literals(host: TaskHost) -> None:
    text = with_text("super().__init__()", "super().__init__(); self.part = Part()")
    text = text.replace("dim=1)", "dim=1) + self.part(x)") + (
        "\nclass Part(nn.Module):\n    def forward(self, x):\n        return x.minimum(torch.tensor(0.25))\n"
    )
    host.source = TaskSource(kind="kernelbench", path="task.py", text=text)
    inputs = {i.target: i for i in host.export({}).inputs}
    assert base64.b64decode(inputs["part.lifted_tensor_0"].data) == np.float32(0.25).tobytes()


def test_a_module_may_be_converted_while_it_is_built(host: TaskHost) -> None:
    """Its inputs are those of the original in their order; a parameter that two modules share is one."""
    made = """super().__init__()
        self.first, self.second = nn.Linear(256, 256), nn.Linear(256, 256, bias=False)
        self.norm, self.second.weight = nn.LayerNorm(256), self.first.weight
        self.register_buffer("state", torch.ones(3))
        self.to(torch.bfloat16)"""
    text = with_text("super().__init__()", made)
    text = text.replace(
        "softmax(x * self.scale, dim=1)", "tanh(self.norm(self.second(self.first(x))) * self.state[0])"
    )
    narrow = text.replace("torch.rand(batch_size, features)", "torch.rand(batch_size, features).bfloat16()")
    found = []
    for version in (text.replace("self.to(torch.bfloat16)", "pass"), narrow):
        host.source = TaskSource(kind="kernelbench", path="task.py", text=version)
        found.append(host.export({}).inputs)
    before, after = found
    assert [(i.role, i.target, i.spec.shape) for i in after] == [
        (i.role, i.target, i.spec.shape) for i in before
    ]
    assert sum(i.target.endswith("t.weight") or i.target.endswith("d.weight") for i in after) == 1
    assert {i.spec.dtype for i in after} == {"bfloat16"}


def test_code_that_looks_at_values_while_building_still_loads(host: TaskHost) -> None:
    text = with_text("super().__init__()", "super().__init__(); self.k = float(torch.ones(3).sum().item())")
    host.source = TaskSource(
        kind="kernelbench", path="task.py", text=text.replace("dim=1)", "dim=1) * self.k")
    )
    assert host.export({}).nodes[-1].args[1] == 3.0


@pytest.mark.parametrize(
    ("line", "words"),
    [("while True: pass", "does it loop for ever"), ("import os; os.kill(os.getpid(), 11)", "SIGSEGV")],
)
def test_endless_and_crashing_files(scratch: Scratch, line: str, words: str) -> None:
    source = TaskSource(kind="kernelbench", path="task.py", text=SOFTMAX)
    with TaskHost(source, scratch=scratch) as made:
        made.export({})
        made.source = TaskSource(kind="kernelbench", path="task.py", text=with_text("batch_size = 64", line))
        made.timeout = 1.0 if "while" in line else 60.0
        with pytest.raises(TaskError, match=words):
            made.export({})
        assert not made.worker.alive


def test_what_is_not_a_task_file(tmp_path: Path) -> None:
    (tmp_path / "latin.py").write_bytes(b"x = '\xe9\xff'")
    (tmp_path / "bad.py").write_text("x = (\n")
    for spec, words in [
        (str(tmp_path / "none.py"), "no such file"),
        (str(tmp_path), "is a folder"),
        (str(tmp_path / "latin.py"), "UTF-8"),
        (str(tmp_path / "bad.py"), r"bad\.py:\d+: syntax error"),
    ]:
        with pytest.raises(TaskError, match=words):
            read_source(spec)


def test_suites_are_folders_or_names(tmp_path: Path) -> None:
    for name in ("b.py", "a.py", "_helper.py", "notes.txt"):
        (tmp_path / name).write_text("")
    assert [p.name for p in load_suite(str(tmp_path))] == ["a.py", "b.py"]
    with pytest.raises(UsageError, match="neither a folder nor a suite"):
        load_suite("no_such_suite")


def test_class_of_an_importable_module(
    tmp_path: Path, scratch: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "their_models"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "sizes.py").write_text("WIDTH = 6\n")
    text = with_text("features = 256", "from .sizes import WIDTH as features").replace("Model", "Net")
    (package / "net.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    task = load_task("their_models.net:Net", scratch=scratch)
    assert task.name == "Net"
    assert task.graph.specs["x"].shape == (64, 6)
    with pytest.raises(TaskError, match=r"no Python module|cannot import"):
        load_task("their_models.nothing:Net", scratch=scratch)


def test_relative_folders_of_pythonpath_are_found_from_the_worker(
    tmp_path: Path, scratch: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "scaling_of_rows.py").write_text("FACTOR = 3.0\n")
    (tmp_path / "tasks").mkdir()
    text = SOFTMAX.replace("import torch\n", "import torch\nimport scaling_of_rows\n", 1)
    (tmp_path / "tasks" / "softmax.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", "packages")
    assert load_task("tasks/softmax.py", scratch=scratch).graph.nodes

"""A winner as a small importable package that needs torch and nothing of warpsmith.

`optimized(module)` wraps the user's own module: built kernels where they apply, the original in every
other case. The folder holds the kernels, built and as source, so that another machine can rebuild them,
and the proof.
"""

from __future__ import annotations

import json
import keyword
import platform
import re
import shutil
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from ..errors import ToolchainError, UsageError
from ..records import Candidate, Graph, Task, TensorSpec, Unit
from ..runtime.fx_graphs import to_fx
from ..runtime.rewrites import deployed_graph
from ..runtime.source import candidate_source
from ..runtime.unit_operators import make_signature
from ..targets.cuda import CudaTarget
from ..targets.native_target import NativeTarget
from .files import LINK_FLAGS, UnitFiles, docstring, target_device, unit_files, write
from .shipped_kernels import processor_features
from .wheel import write_wheel

_INIT = '''\
"""{title}

{proof}
"""

from pathlib import Path

from torch import nn

from ._register import register
from ._runtime import Optimized

__all__ = ["Optimized", "operator", "optimized"]

operator = register(Path(__file__).parent)  # torch.ops.{name}.run.default


def optimized(module: nn.Module) -> Optimized:
    """A faster drop-in for `module`, which must be a {task} as it was optimized; parameters are shared.

    Every other shape, dtype or mode, and calls that need gradients, go to the module itself.
    """
    return Optimized(module, Path(__file__).parent)
'''

_PYPROJECT = """\
[build-system]
requires = ["setuptools>=68"]
build-backend = "setuptools.build_meta"

[project]
name = "{project}"
version = "0.1.0"
description = "Kernels for {task}, generated and verified by warpsmith"
requires-python = ">=3.11"
dependencies = ["torch>=2.9"]

[tool.setuptools]
packages = ["{name}"]

[tool.setuptools.package-data]
{name} = ["manifest.json", "lib/*.so", "lib/*/*.so", "csrc/*.h", "csrc/*/*"]
"""

_README = """\
# {name}

Kernels for `{task}`, generated and verified by warpsmith (candidate `{candidate}`).

```python
import torch
from {name} import optimized

fast = optimized(model)  # your own module; parameters are shared
with torch.no_grad():
    y = fast(x)
print(fast.active, fast.fast_calls, fast.fallbacks)
```

Calls with other shapes, dtypes or modes, and calls that need gradients, go to your module. Kernels that were
built for another processor or GPU are rebuilt with {compiler} when the package is used; without a compiler your
module runs, with a warning.

The computation is an operator, too, for code that `torch.compile` or `torch.export` looks into:

```python
from {name} import operator  # torch.ops.{name}.run.default

# {schema}
{arguments}
```

Its gradients are those of ATen's operations; it refuses other shapes and dtypes. It needs torch alone.

## Proof

{proof}
"""


RUNTIME = {
    "_runtime.py": "export/standalone.py", "_calls.py": "runtime/calls.py", "_structure.py": "tasks/structure.py",
    "_kernels.py": "export/shipped_kernels.py", "_operators.py": "runtime/operators.py",
    "_register.py": "export/packaged_operator.py",
}  # fmt: skip
# Where the modules import each other in a package.
_IMPORTS = {
    "from ..runtime.calls": "from ._calls", "from ..tasks.structure": "from ._structure",
    "from ..runtime.operators": "from ._operators", "from .shipped_kernels": "from ._kernels",
    "from .standalone": "from ._runtime",
}  # fmt: skip
_COMPILERS = {"cpu": "`$CXX` or g++", "cuda": "nvcc"}


def to_package(
    task: Task, candidate: Candidate, target: NativeTarget, out_dir: Path, name: str, proof: str = "", archs: Sequence[str] = ()
) -> Path:  # fmt: skip
    """Write the package `name` under `out_dir`, a project that pip installs, with its wheel in `dist`, and return the package's folder.

    `archs`: GPU architectures to build for, such as "sm_80"; the target's own when none is named. Raises UsageError for a bad name,
    architectures for a CPU, or a folder that cannot be written, ToolchainError when a unit does not build here.
    """
    if not name.isidentifier() or not name.isascii() or keyword.iskeyword(name):
        raise UsageError(f"{name!r} is no name for a Python package: use letters, digits and underscores")
    folder = out_dir / name
    texts = {
        "name": name,
        "task": docstring(" ".join(task.name.split())),
        "proof": proof,
        "candidate": candidate.id,
    }
    pyproject = _PYPROJECT.format(project=name.replace("_", "-"), **_plain(texts))
    write(out_dir / "pyproject.toml", pyproject)
    write(out_dir / "README.md", _README.format(**texts, **describe_operator(task, candidate.target)))
    write_modules(task, candidate, target, folder, name, proof, archs)
    write_wheel(folder, out_dir / "dist", f"Kernels for {texts['task']}, generated and verified by warpsmith")
    return folder


def write_modules(
    task: Task, candidate: Candidate, target: NativeTarget, folder: Path, name: str, proof: str, archs: Sequence[str]
) -> None:  # fmt: skip
    """Write the importable package alone. Raises UsageError, ToolchainError."""
    device = target_device(target)
    if archs and device == "cpu":
        raise UsageError("architectures are of GPUs: leave --arch out for kernels of a CPU")
    targets = _make_targets(target, archs)
    title = (
        f"{docstring(' '.join(task.name.split()))}: kernels generated by warpsmith, candidate {candidate.id}."
    )
    init = _INIT.format(
        title=title, task=docstring(" ".join(task.name.split())), proof=docstring(proof), name=name
    )
    write(folder / "__init__.py", init)
    for module, path in RUNTIME.items():
        write(folder / module, _standing_alone(path))
    graph = deployed_graph(task.graph, candidate.units)
    write(folder / "_program.py", candidate_source(graph, [u.region for u in candidate.compiled], device))
    write(folder / "_reference.py", _write_reference(task.graph, device))
    units = [_unit(number, unit, task, targets, folder) for number, unit in enumerate(candidate.compiled)]
    manifest = _manifest(task, candidate, units) | {"name": name, "device": device, "archs": list(targets)}
    write(folder / "manifest.json", json.dumps(manifest, indent=2) + "\n")


def _make_targets(target: NativeTarget, archs: Sequence[str]) -> dict[str, NativeTarget]:
    """Architecture → target; the only name is empty for a CPU."""
    if not isinstance(target, CudaTarget):
        return {"": target}
    for arch in archs:
        if not re.fullmatch(r"sm_\d{2,3}[af]?", arch):
            raise UsageError(f"{arch!r} is no GPU architecture: write it as sm_90a")
    return {arch: target.for_arch(arch) for arch in archs or [target.arch]}


def _standing_alone(path: str) -> str:
    """The text of a module of ours that imports the package's copies of others."""
    text = resources.files("warpsmith").joinpath(path).read_text(encoding="utf-8")
    for module, copied in _IMPORTS.items():
        text = text.replace(module, copied)
    return text


def _write_reference(graph: Graph, device: str) -> str:
    """The computation in ATen as a module with `build(literals)`, which returns a function of the other tensors."""
    code = to_fx(graph, device=device, updates=False).code.strip("\n")
    body = "\n".join(f"    {line}" if line.strip() else "" for line in code.splitlines())
    return (
        f'"""The computation in ATen: where kernels cannot run, and for gradients."""\n\nfrom types import SimpleNamespace\n\n'
        f"import torch\nfrom torch import device, inf, nan\n\n\ndef build(literals):\n{body}\n\n"
        '    constants = SimpleNamespace(**{f"literal_{n}": t for n, t in enumerate(literals)})\n'
        "    return lambda *inputs: forward(constants, *inputs)\n"
    )


def describe_operator(task: Task, target: str) -> dict[str, str]:
    device = "cpu" if target == "cpu" else "cuda"
    reads = [i for i in task.graph.inputs if not i.data]
    lines = [f"# x{n}: {i.role} {i.target}, {i.spec.dtype}{list(i.spec.shape)}" for n, i in enumerate(reads)]
    schema = make_signature(task.graph, device).schema if reads else "reads no tensor: there is no operator"
    return {"schema": schema, "arguments": "\n".join(lines), "compiler": _COMPILERS[device]}


def _unit(
    number: int, unit: Unit, task: Task, targets: Mapping[str, NativeTarget], folder: Path
) -> dict[str, Any]:
    """Write a unit's files and its libraries; returns its row of the manifest."""
    files: UnitFiles = unit_files(unit, task.graph, next(iter(targets.values())))
    for header, text in files.headers().items():
        write(folder / "csrc" / header, text)
    write(folder / "csrc" / f"unit{number}" / files.name, files.source)
    write(folder / "csrc" / f"unit{number}" / "task.h", files.header)
    library = f"lib/{{arch}}/unit{number}.so" if "" not in targets else f"lib/unit{number}.so"
    for arch, target in targets.items():
        build = target.build(unit, task.graph, task.main.name)
        if not build.ok:
            why = build.diagnostics[0].message if build.diagnostics else "the compiler failed"
            destination = f"for {arch}" if arch else "here"
            raise ToolchainError(f"unit {number} of {task.name} does not build {destination}: {why}")
        path = folder / library.format(arch=arch)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(build.library, path)
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror or error}") from error
    source = f"csrc/unit{number}/{files.name}"
    flags = [flag for flag in files.flags if not flag.startswith("-gencode")]
    link = ("-shared",) if unit.language == "cuda" else LINK_FLAGS  # nvcc links its runtime
    return {"library": library, "source": source, "flags": flags, "link": list(link)}


def _manifest(task: Task, candidate: Candidate, units: list[dict[str, Any]]) -> dict[str, Any]:
    graph = task.graph
    results = [o.value for o in graph.outputs if o.role == "output"]
    return {
        "task": task.name,
        "candidate": candidate.id,
        "machine": platform.machine(),
        "processor": sorted(processor_features()),
        "units": units,
        "reads": _reads(graph),
        "returns": [_spec(graph.specs[value]) if value is not None else None for value in results],
        "updated": list(make_signature(graph, "cpu").updated)
        if any(not i.data for i in graph.inputs)
        else [],
        "call": json.loads(graph.call) if graph.call else _plain_call(graph),
        "tree": json.loads(graph.tree),
        "updates_buffers": any(o.role == "buffer_update" for o in graph.outputs),
    }


def _spec(spec: TensorSpec) -> dict[str, Any]:
    return {"dtype": spec.dtype, "shape": list(spec.shape), "stride": list(spec.stride)}


def _reads(graph: Graph) -> list[dict[str, Any]]:
    return [
        {
            "kind": "literal" if i.data else i.role, "name": i.target, "data": i.data, **_spec(i.spec),
        }
        for i in graph.inputs
    ]  # fmt: skip


def _plain_call(graph: Graph) -> dict[str, Any]:
    count = sum(i.role == "input" for i in graph.inputs)
    return {"tuple": [{"tuple": list(range(count))}, {"dict": {}}]}


def _plain(texts: dict[str, str]) -> dict[str, str]:
    """Texts that can stand between double quotes in TOML."""
    return {k: v.replace('"', "'") for k, v in texts.items()}

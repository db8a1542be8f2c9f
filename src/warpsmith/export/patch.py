"""A winner as a change to the user's own source: a diff, the kernels beside it, a page in plain words, and a script that checks it.

In: a task whose source is a file, its candidate and what was measured. Out: a folder with `change.patch` (a decorator above the
class), the package that the decorator comes from, `CHANGE.md` and `verify.py`. Nothing of the user's is written over.
"""

from __future__ import annotations

import ast
import difflib
import os
from collections.abc import Sequence
from pathlib import Path

from ..errors import UsageError
from ..progress import counted
from ..records import Candidate, Task
from ..targets.native_target import NativeTarget
from .files import target_device, write
from .package import write_modules

_PAGE = """\
# What this change does

`{entry}` in `{file}` gets a decorator. It runs generated kernels in calls that are like the one they were verified for, and your own
`forward` in all others. Parameters, `state_dict`, and the code of `forward` stay as they are.

## What is different

```diff
{diff}```

{units}

## When the kernels run

{limits}

Every other call runs your code. `model.kernel_calls` counts the calls that the kernels answered.

## Proof

{proof}

## How to apply it, check it, and undo it

```
cp -r {package} {folder}/          # the kernels go beside your file
git apply change.patch             # or: patch -p1 < change.patch
python verify.py                   # compares both ways on the task's inputs; needs torch alone
git apply -R change.patch          # takes it back
```

Judge it again, in fresh processes against every baseline: `warpsmith optimize {file} --target {target}` on the machine in question;
kernels are verified for one machine and its versions of torch and compiler.
"""

_DECORATOR = '''

def accelerated(kind):
    """Class decorator: kernels in the calls of `forward` that they were made for, the class's own code in all others."""
    own = kind.forward

    def forward(self, *args, **kwargs):
        holder = self.__dict__.setdefault("_accelerated", _Holder())
        if holder.module is None:
            holder.module = Optimized(self, Path(__file__).parent, call=own.__get__(self))
        return holder.module(*args, **kwargs)

    forward.__wrapped__ = own
    kind.forward = forward
    kind.kernel_calls = property(lambda self: _count(self.__dict__.get("_accelerated")))
    return kind


class _Holder:
    """The kernels of one instance; copies and pickles of it load their own."""

    module = None

    def __reduce__(self):
        return _Holder, ()


def _count(holder):
    return holder.module.fast_calls if holder is not None and holder.module is not None else 0
'''

_VERIFY = '''\
"""Compares `{entry}` of {file} with and without the kernels, on the task's own inputs. It exits 1 where they differ."""

import copy
import importlib.util
import sys
from pathlib import Path

import torch

here = Path(__file__).resolve().parent
source = Path(sys.argv[1] if len(sys.argv) > 1 else {path!r})
sys.path[:0] = [str(here), str(source.parent)]
spec = importlib.util.spec_from_file_location("task", source)
task = importlib.util.module_from_spec(spec)
spec.loader.exec_module(task)
from {package} import accelerated

kind = getattr(task, {entry!r})
plain = getattr(kind.forward, "__wrapped__", kind.forward)
if not hasattr(kind, "kernel_calls"):
    accelerated(kind)
torch.manual_seed(0)
model = kind(*task.get_init_inputs()).to({device!r})
inputs = [t.to({device!r}) if isinstance(t, torch.Tensor) else t for t in task.get_inputs()]
reference = copy.deepcopy(model)
with torch.no_grad():
    expected, answer = plain(reference, *copy.deepcopy(inputs)), model(*copy.deepcopy(inputs))
leaves = torch.utils._pytree.tree_leaves
pairs = [(e, a) for e, a in zip(leaves(expected), leaves(answer)) if isinstance(e, torch.Tensor)]
tolerance = {{torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 3e-2}}
errors = [float((e - a).abs().max() / e.abs().max().clamp_min(1e-30)) if e.is_floating_point() else float((e != a).any()) for e, a in pairs]
bad = [e for e, (x, _) in zip(errors, pairs) if not e <= tolerance.get(x.dtype, 0.0)]
print(f"{{model.kernel_calls}} call by kernels; largest relative difference {{max(errors, default=0.0):.2e}}")
sys.exit(1 if bad or not model.kernel_calls else 0)
'''


def to_patch(
    task: Task, candidate: Candidate, target: NativeTarget, out_dir: Path, proof: str = "", source: Path | None = None, archs: Sequence[str] = ()
) -> Path:  # fmt: skip
    """Write the folder and return it. `source`: the file to change; the task's own when None.

    Raises UsageError where there is no such file, or it does not define the class; ToolchainError when a kernel does not build.
    """
    path, text = _read_source(task, source)
    entry = task.source.entry
    package = f"{path.stem}_kernels" if path.stem.isidentifier() else "warpsmith_kernels"
    diff = _make_diff(path, text, _decorate(text, entry, package, path))
    write_modules(task, candidate, target, out_dir / package, package, proof, archs)
    init = out_dir / package / "__init__.py"
    names = '__all__ = ["Optimized", "accelerated", "operator", "optimized"]'
    write(
        init, init.read_text().replace('__all__ = ["Optimized", "operator", "optimized"]', names) + _DECORATOR
    )
    write(out_dir / "change.patch", diff)
    device = target_device(target)
    write(
        out_dir / "verify.py",
        _VERIFY.format(entry=entry, file=path.name, path=str(path), package=package, device=device),
    )
    texts = {
        "entry": entry,
        "file": path.name,
        "folder": _show(path.parent),
        "package": package,
        "target": candidate.target,
    }
    page = _PAGE.format(
        **texts,
        diff=diff,
        proof=proof,
        units=_describe_units(task, candidate),
        limits=_describe_limits(task, device),
    )
    write(out_dir / "CHANGE.md", page)
    return out_dir


def _read_source(task: Task, source: Path | None) -> tuple[Path, str]:
    if source is None and task.source.kind != "kernelbench":
        raise UsageError(
            f"{task.name} was not optimized from a file of its own: name the file that defines it with --source"
        )
    path = (source or Path(task.source.path)).resolve()
    try:
        return path, path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"{path} cannot be read ({reason}): name the file with --source") from error


def _decorate(text: str, entry: str, package: str, path: Path) -> str:
    """The source with the import and the decorator. Raises UsageError where it does not define the class."""
    try:
        body = ast.parse(text).body
    except SyntaxError as error:
        raise UsageError(f"{path} is no Python: {error.msg} in line {error.lineno}") from error
    kind = next((n for n in body if isinstance(n, ast.ClassDef) and n.name == entry), None)
    if kind is None:
        raise UsageError(f"{path} defines no class {entry}: name the file that does with --source")
    lines = text.splitlines(keepends=True)
    first = min([kind.lineno, *(d.lineno for d in kind.decorator_list)]) - 1
    imports = [n for n in body if isinstance(n, ast.Import | ast.ImportFrom) and n.lineno <= first]
    after = (imports[-1].end_lineno or 0) if imports else _skip_docstring(body)
    lines.insert(first, "@accelerated\n")
    lines.insert(after, f"from {package} import accelerated\n")
    return "".join(lines)


def _skip_docstring(body: list[ast.stmt]) -> int:
    first = body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return (first.end_lineno or 0) if documented else 0


def _make_diff(path: Path, before: str, after: str) -> str:
    name = _show(path)
    return "".join(
        difflib.unified_diff(
            before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{name}", f"b/{name}"
        )
    )


def _show(path: Path) -> str:
    """The path from the working directory where it lies below, else its last part."""
    relative = os.path.relpath(path)
    return path.name if relative.startswith("..") else relative


def _describe_units(task: Task, candidate: Candidate) -> str:
    lines = [f"{counted(len(candidate.units), 'part')} of the computation changes:", ""]
    for unit in candidate.units:
        operations = ", ".join(task.graph.by_name[n].op.removeprefix("aten.") for n in unit.region.nodes)
        lines.append(f"- {unit.technique or unit.family or 'a kernel'} in place of {operations}")
    return "\n".join([*lines, "", "Everything else runs by the same operations of torch as before."])


def _describe_limits(task: Task, device: str) -> str:
    inputs = [
        f"- `{i.target}`: {i.spec.dtype}, shape {list(i.spec.shape)}, on {device}"
        for i in task.graph.inputs
        if i.role == "input"
    ]
    return "\n".join(
        [
            *inputs,
            "- no tensor needs gradients, and autocast is off",
            "- training mode and constants as in the task",
        ]
    )


__all__ = ["to_patch"]

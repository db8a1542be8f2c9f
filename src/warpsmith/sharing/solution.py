"""A foreign kernel as files that `warpsmith judge` takes: its reference as a task, its source as a `ModelNew`.

The kernel's `forward` takes the arguments of `module_fn` in its functional reference, whose `Model` passes them on as
`fn(…)` with the parameters it holds. `ModelNew` is that Model with the built kernel for `fn`. It is built as its authors
did, by `torch.utils.cpp_extension` with -O3 and --use_fast_math. Nothing is run here.
"""

from __future__ import annotations

import ast
from pathlib import Path

from ..archive.foreign import ForeignKernel
from ..archive.transfer import aside
from ..errors import UsageError

TASK, SOLUTION = "task.py", "solution.py"

_SOLUTION = '''\
"""{title}"""

import torch
from torch.utils.cpp_extension import load_inline

{functional}


_SOURCE = {source!r}

_kernel = load_inline(
    name="foreign_{id}",
    cpp_sources="",
    cuda_sources=_SOURCE,
    extra_cuda_cflags=["-O3", "--use_fast_math"],
)


class ModelNew(Model):
    def forward(self, *inputs):
        return super().forward(*inputs, fn=_kernel.forward)
'''


def write_solution(kernel: ForeignKernel, folder: Path) -> tuple[Path, Path]:
    """(task, solution). Raises UsageError when nothing says how the kernel is called, or when the folder has such files;
    ArchiveError when they cannot be written.
    """
    functional = kernel.functional_code or ""
    if not _takes_fn(functional):
        raise UsageError(
            f"foreign kernel {kernel.id} ({kernel.op_name}) has no PyTorch_Code_Functional with a Model whose forward "
            "takes fn: how its kernel is called is not known"
        )
    paths = folder / TASK, folder / SOLUTION
    existing = [p for p in paths if p.exists()]
    if existing:
        raise UsageError(f"{existing[0]} is there already: give another folder to --out")
    folder.mkdir(parents=True, exist_ok=True)
    title = f"{kernel.op_name}: {kernel.kernel_name}".replace("\\", "/").replace('"', "'").replace("\n", " ")
    solution = _SOLUTION.format(
        title=title, functional=functional.rstrip(), source=kernel.cuda_code, id=kernel.id
    )
    for path, text in zip(paths, (kernel.module_code, solution), strict=True):
        with aside(path) as aside_path:
            aside_path.write_text(text, encoding="utf-8")
    return paths


def _takes_fn(functional: str) -> bool:
    try:
        tree = ast.parse(functional)
    except (SyntaxError, ValueError):
        return False
    models = [n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Model"]
    forwards = [f for m in models for f in m.body if isinstance(f, ast.FunctionDef) and f.name == "forward"]
    return any(a.arg == "fn" for f in forwards for a in (*f.args.args, *f.args.kwonlyargs))

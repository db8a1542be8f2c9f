"""A winner as bare source: each unit with its `task.h`, the headers it includes, and a README with the exact
commands and the proof.
"""

from __future__ import annotations

from pathlib import Path

from ..progress import counted
from ..records import Candidate, Graph, Task, Unit
from ..targets.native_target import NativeTarget
from .files import UnitFiles, unit_files, write

_README = """\
# {task}: {count}

Generated and verified by warpsmith, candidate `{candidate}`.

{units}

Each library exports

```c
void warpsmith_run(const void* const* in, void* const* out, void* workspace, void* stream);
uint64_t warpsmith_workspace_bytes();
```

Pointers are 64-byte aligned; `workspace` has that many bytes (null when none are needed), `stream` is null on
the CPU and a `cudaStream_t` on CUDA, where pointers are the device's and `warpsmith_run` returns a `cudaError_t` as an int. Where a unit's source declares tensor maps,
its fifth argument is the address of the driver's `cuTensorMapEncodeTiled`. `GOMP_*` symbols
come from the process that loads it; link with `-fopenmp` if yours has none.

## Proof

{proof}
"""


def to_source(task: Task, candidate: Candidate, target: NativeTarget, out_dir: Path, proof: str = "") -> Path:
    """Write the files under `out_dir` and return it. Raises UsageError when it cannot be written."""
    for name, text in list_source_files(task, candidate, target, proof).items():
        write(out_dir / name, text)
    return out_dir


def list_source_files(
    task: Task, candidate: Candidate, target: NativeTarget, proof: str = ""
) -> dict[str, str]:
    """Return the texts by their names below one folder."""
    parts: list[str] = []
    texts: dict[str, str] = {}
    for number, unit in enumerate(candidate.compiled):
        files = unit_files(unit, task.graph, target)
        texts |= {f"unit{number}/{files.name}": files.source, f"unit{number}/task.h": files.header}
        texts |= files.headers()
        parts.append(_about(number, unit, task.graph, files))
    rewritten = [u for u in candidate.units if not u.compiled]
    parts += [f"## {u.technique}\n\nNo kernel: ATen's own.\n\n```\n{u.text}```" for u in rewritten]
    count = f"{counted(len(candidate.compiled), 'kernel')}"
    texts["README.md"] = _README.format(
        task=task.name, count=count, candidate=candidate.id, units="\n\n".join(parts), proof=proof
    )
    return texts


def _about(number: int, unit: Unit, graph: Graph, files: UnitFiles) -> str:
    specs = graph.specs
    rows = [
        f"- `in[{i}]`: {name}, {specs[name].dtype} {list(specs[name].shape)}"
        for i, name in enumerate(unit.region.inputs)
    ]
    rows += [
        f"- `out[{i}]`: {name}, {specs[name].dtype} {list(specs[name].shape)}"
        for i, name in enumerate(unit.region.outputs)
    ]
    nodes = ", ".join(f"{name} ({graph.by_name[name].op})" for name in unit.region.nodes)
    commands = f"```sh\ncd unit{number}\n{files.compile_command}\n{files.link_command}\n```"
    return (
        f"## unit{number}: {unit.technique or unit.family}\n\nCovers {nodes}.\n\n"
        + "\n".join(rows)
        + f"\n\n{commands}"
    )

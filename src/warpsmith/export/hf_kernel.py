"""A winner in the layout of the Hugging Face `kernels` library, which loads it from a local folder or from a hub.

In: a task, its candidate and a target. Out: a folder with a card and `build/torch-cpu` or `build/torch-cuda`, a variant without
torch's ABI: libraries, the operator that `kernels.get_local_kernel` registers, and `optimized` for the module that was won.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from ..records import Candidate, Task
from ..targets.native_target import NativeTarget
from .files import docstring, target_device, write
from .package import describe_operator, write_modules

_CARD = """\
---
library_name: kernels
tags:
- kernels
---

# {name}

Kernels for `{task}`, generated and verified by warpsmith (candidate `{candidate}`). They need torch alone.

```python
from pathlib import Path
from kernels import get_local_kernel

kernel = get_local_kernel(Path("{folder}"), backend="{device}")
y = kernel.operator(...)  # {schema}
fast = kernel.optimized(model)  # a drop-in for the module that was won
```

{arguments}

Other shapes and dtypes are refused by the operator, and go to the original in `optimized`.

## Proof

{proof}
"""


def to_hf_kernel(
    task: Task, candidate: Candidate, target: NativeTarget, out_dir: Path, name: str, proof: str = "", archs: Sequence[str] = ()
) -> Path:  # fmt: skip
    """Write the folder and return it. Raises UsageError, ToolchainError as `package.to_package` does."""
    device = target_device(target)
    variant = out_dir / "build" / f"torch-{device}"
    namespace = f"{name}_{candidate.id[:8]}"  # no other version of the kernel takes it
    write_modules(task, candidate, target, variant, namespace, proof, archs)
    metadata = {
        "id": f"_{namespace}_{device}", "name": name.replace("_", "-").lower(), "version": 1, "license": "Apache-2.0",
        "python-depends": [], "backend": {"type": device},
    }  # fmt: skip
    write(variant / "metadata.json", json.dumps(metadata, indent=2) + "\n")
    texts = {
        "name": name,
        "task": docstring(task.name),
        "candidate": candidate.id,
        "proof": proof,
        "folder": out_dir.name,
        "device": device,
    }
    write(out_dir / "README.md", _CARD.format(**texts, **describe_operator(task, candidate.target)))
    return out_dir

"""The machine code of a unit as a hash, without the names of its symbols.

In: a file of a unit and its graph (`emitted_units.py --texts`). Out: a hash, or why it does not build. Of a GPU library it covers
the sections of device code; of a CPU library the instructions of its text section with addresses left out.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from warpsmith.records import Graph, Unit
from warpsmith.targets.cpu import CpuTarget
from warpsmith.targets.cuda import CudaTarget
from warpsmith.targets.fingerprint import read_device_code
from warpsmith.targets.target import Target

ADDRESS = re.compile(r"\s*#.*|0x[0-9a-f]+\(%rip\)|\b[0-9a-f]{4,}\b|<[^>]*>")


def machine_code_hash(file: Path) -> str:
    held = json.loads(file.read_text())
    unit, graph = Unit.model_validate(held["unit"]), Graph.model_validate(held["graph"])
    build = make_target(unit.language).build(unit, graph, "main")
    if not build.ok or build.library is None:
        return "does not build: " + "; ".join(d.message for d in build.diagnostics)[:100]
    return hash_library(build.library, unit.language)


def hash_library(library: str | Path, language: str) -> str:
    digest = hashlib.sha256()
    if language == "cuda":
        for name, data in read_device_code(library):
            digest.update(f"{name}:{len(data)}:".encode() + data)
    else:
        digest.update(list_instructions(library).encode())
    return digest.hexdigest()[:16]


@cache
def make_target(language: str) -> Target:
    folder = Path(tempfile.gettempdir()) / "warpsmith-machine-code"
    return CudaTarget(folder, arch="sm_90a") if language == "cuda" else CpuTarget(folder, threads=8)


def list_instructions(library: str | Path) -> str:
    """Mnemonics and registers of the text section, one instruction a line."""
    command = ["objdump", "-d", "-j", ".text", "--no-show-raw-insn", "--no-addresses", str(library)]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = [line for line in listed.splitlines() if line.startswith(("\t", " "))]
    return "\n".join(ADDRESS.sub("", line).rstrip() for line in lines)

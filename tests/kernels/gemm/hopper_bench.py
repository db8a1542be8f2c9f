"""The Hopper GEMM kernels on the CPU: their sources behind `hopper_host`, which stands for what the hardware does."""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from built_once import built_once

from warpsmith import kernels

SOURCES = Path(kernels.__file__).parent / "gemm/cuda/hopper"
HOST = Path(__file__).parent / "hopper_host"
# Headers of instructions; the rest of the sources runs as it is.
HARDWARE = (
    "shared_address", "dependent_launch", "mbarrier", "cluster", "tma", "stmatrix", "round_pair", "wgmma", "wgmma_products", "mma_sync",
)  # fmt: skip
DEFAULTS = {
    "KIND": 1, "BF16": 0, "FLOAT": 0, "EPILOGUE": 0, "BM": 128, "BN": 64, "BK": 64, "STAGES": 3, "CONSUMERS": 2,
    "PINGPONG": 0, "CM": 1, "CN": 1, "PANEL": 64, "SPLIT": 0, "BOXES": 0, "SWAP": 0, "BT": 1, "TMA_STORE": 1,
    "WM": 2, "WN": 2, "WK": 1, "VA": 8, "VB": 8,
}  # fmt: skip
Edit = tuple[str, str, str]  # a file, a text in it, what stands there instead


@dataclass(frozen=True)
class HopperBench:
    folder: Path  # where builds lie

    def build(self, source: str, flags: list[str], edit: Edit | None = None) -> Path:
        """Compile a file of `hopper_host` once."""
        texts = {p.name: p.read_text() for p in (*SOURCES.glob("*.cuh"), *HOST.iterdir())}
        texts |= {f"{name}.cuh": '#include "hopper_on_host.h"\n' for name in HARDWARE}
        if edit is not None:
            name, before, after = edit
            assert texts[name].count(before) == 1, f"{name} has {texts[name].count(before)} times {before}"
            texts[name] = texts[name].replace(before, after)
        key = hashlib.sha256(repr((sorted(texts.items()), source, flags)).encode()).hexdigest()[:24]

        def make(aside: Path) -> list[str]:
            for name, text in texts.items():
                (aside / name).write_text(text)
            return ["g++", "-std=c++17", "-O1", "-w", "-U_FORTIFY_SOURCE", *flags, "-o", "result", source]

        return built_once(self.folder / key, make) / "result"

    def integers(self) -> ctypes.CDLL:
        return ctypes.CDLL(str(self.build("integers.cpp", ["-shared", "-fPIC"])))

    def run(
        self, definitions: Mapping[str, int], launch: tuple[int, int, int, int], seed: int,
        shapes: list[tuple[int, int, int]], edit: Edit | None = None,
    ) -> list[float] | str:  # fmt: skip
        """Return the relative Frobenius error at each shape, or what the hardware refused. `launch`: blocks, group,
        along_n, parts.
        """
        flags = [f"-DG_{name}={value}" for name, value in {**DEFAULTS, **definitions}.items()]
        program = self.build("gemm_on_host.cpp", flags, edit)
        words = [str(x) for x in (*launch, seed, *(size for shape in shapes for size in shape))]
        done = subprocess.run([program, *words], capture_output=True, text=True, timeout=120, check=False)
        return [float(x) for x in done.stdout.split()] if done.returncode == 0 else done.stdout

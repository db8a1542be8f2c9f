"""Present names of techniques and tunables by their earlier ones: the one table, and its readers.

In: a family, and a name or values as some version of the expert wrote them. Out: what the present expert calls them; a present or
unknown name stays. C++ and CUDA never gave one earlier name of a family to two techniques, so that the table needs no language, which
hypotheses and profiles do not know.

Stored text stays as it is: a unit keeps its source, and so its macros, its tunables and its front matter. Names are translated
where records are read (`named.py`), values where they are compared or applied to a technique of today.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_CONVOLUTION = {
    "flat": "implicit-gemm-warp-specialized", "halves": "implicit-gemm-fp16", "halves-exact": "implicit-gemm-3xfp16",
    "patches": "implicit-gemm-tf32",
}  # fmt: skip
_DIRECT = {"staged": "smem-tiled", "strips": "register-tiled"}
_GEMM = {"tensor-cores": "gemm-3xtf32", "wgmma": "gemm-3xfp16", "wgmma-thin": "gemm-3xfp16-small-m"}
_REDUCTION = {
    "registers": "register-resident", "shared": "smem-resident", "streamed": "multi-pass", "split": "split-row",
    "cluster": "cluster-dsmem", "resident": "persistent-cluster", "teams": "persistent-cooperative",
    "packs": "column-vectorized", "column-registers": "column-register-resident", "stash": "row-buffered",
}  # fmt: skip
TECHNIQUES: Mapping[str, Mapping[str, str]] = MappingProxyType({  # family → earlier name → present one
    "convolution": _CONVOLUTION,
    "convolution_tail": _CONVOLUTION,
    "direct_convolution": _DIRECT,
    "direct_tail": _DIRECT,
    "matmul": _GEMM | {f"algebraic-{earlier}": f"algebraic-{present}" for earlier, present in _GEMM.items()},
    "attention": {"wgmma": "materialized-scores-3xfp16", "streaming": "online-softmax"},
    "loss": _REDUCTION,
    "softmax": _REDUCTION,
    "norm": _REDUCTION,
    "reduction": _REDUCTION,
    "pooling": {"windows": "window-per-thread-group", "strips": "register-tiled", "planes": "separable-3d"},
    "scan": {"split": "split-row"},
    "upsample": {"stretched rows": "separable-rows"},
})  # fmt: skip

_CONVOLUTION_TUNABLES = {
    "TALL": "MMA_TILES_M", "FRAGMENTS": "MMA_TILES_PER_WARP", "TEAMS": "CONSUMER_GROUPS",
    "SLICE": "K_STEPS_PER_STAGE", "PATCHES": "IMAGE_STAGES", "UNITS": "SM_COUNT", "PIXELS": "TILE_PIXELS",
    "WIDE": "PIXELS_W", "DEEP": "PIXELS_D",
}  # fmt: skip
_DIRECT_TUNABLES = {"STRIP": "ROWS_PER_THREAD"}
_REDUCTION_TUNABLES = {
    "TEAMS": "ROWS_IN_FLIGHT", "AHEAD": "PREFETCH_STEPS", "EARLY": "OVERLAP_STEPS", "KEEP": "SMEM_KIB",
    "WIDE": "BLOCK_COLUMNS",
}  # fmt: skip
# Family, or "family/technique" for what one technique (by its present name) calls otherwise → earlier name → present one.
TUNABLES: Mapping[str, Mapping[str, str]] = MappingProxyType({
    "convolution": _CONVOLUTION_TUNABLES,
    "convolution_tail": _CONVOLUTION_TUNABLES,
    "direct_convolution": _DIRECT_TUNABLES,
    "direct_tail": _DIRECT_TUNABLES,
    "matmul/skinny": {"TALL": "ROWS_PER_GROUP"},
    "matmul/algebraic-skinny": {"TALL": "ROWS_PER_GROUP"},
    "loss": _REDUCTION_TUNABLES,
    "softmax": _REDUCTION_TUNABLES,
    "norm": _REDUCTION_TUNABLES,
    "reduction": _REDUCTION_TUNABLES,
    "pooling/register-tiled": {
        "DEEP": "PLANES_PER_THREAD", "STRIP": "ROWS_PER_THREAD", "SPAN": "PACKS_PER_THREAD",
    },
    "pooling/separable-3d": {"DEEP": "PLANES_PER_BLOCK"},
})  # fmt: skip
_NONE: Mapping[str, str] = MappingProxyType({})


def current_technique(family: str, name: str) -> str:
    """Return what the technique of this family is called today."""
    return TECHNIQUES.get(family, _NONE).get(name, name)


def current_values(family: str, technique: str, values: Mapping[str, int]) -> dict[str, int]:
    """Return the values by the names that the tunables of this technique have today, in the same order."""
    of_technique = TUNABLES.get(f"{family}/{current_technique(family, technique)}", _NONE)
    names = {**TUNABLES.get(family, _NONE), **of_technique}
    return {names.get(name, name): value for name, value in values.items()}


def current_branch(branch: str) -> str:
    """Return a line of descent, "family/technique@region + …", with the names of today. Campaigns wrote techniques alone."""
    return " + ".join(_translate_part(part) for part in branch.split(" + "))


def _translate_part(part: str) -> str:
    name, at, region = part.partition("@")
    family, slash, technique = name.rpartition("/")
    present = current_technique(family, technique) if slash else _translate_alone(technique)
    return f"{family}{slash}{present}{at}{region}"


def _translate_alone(technique: str) -> str:
    """A technique without its family, where all families that know the name mean the same by it."""
    names = {table[technique] for table in TECHNIQUES.values() if technique in table}
    return names.pop() if len(names) == 1 else technique

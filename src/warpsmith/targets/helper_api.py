"""The helper headers as an author reads them: each function with its parameters, from the header itself.

In: a target. Out: text, one line a header; empty where the target has none. What the header does not define is not listed.
"""

from __future__ import annotations

import functools
import re
from types import MappingProxyType

from .native_target import HEADERS

LISTED = MappingProxyType({
    "cpu": ("warpsmith_simd.h",), "cuda": ("warpsmith_cuda.h", "warpsmith_cuda_states.h", "warpsmith_cuda_math.h"),
})  # fmt: skip
_FUNCTION = re.compile(
    r"(?:WS_FN|__forceinline__|\binline) [^(\n]{1,80}?\b(?P<name>[a-z]\w*)\((?P<parameters>[^(){}]{0,200})\) *\{"
)
_STRUCT = re.compile(r"^struct (?:alignas\(.*\) )?(?P<name>[A-Z]\w*) *\{", re.MULTILINE)
_INTERNAL = ("_poly", "_special", "_split", "_reduced", "_center", "_tail", "lanes", "each_")


@functools.cache
def describe_helpers(target: str) -> str:
    """List them in namespace `ws`."""
    return "\n".join(f'"{name}" (namespace ws): {_list_names(name)}.' for name in LISTED.get(target, ()))


def _list_names(header: str) -> str:
    text = (HEADERS / header).read_text(encoding="utf-8")
    functions: dict[str, str] = {}
    for match in _FUNCTION.finditer(text):
        if not any(part in match["name"] for part in _INTERNAL):
            parameters = " ".join(match["parameters"].split())
            functions.setdefault(match["name"], f"{match['name']}({parameters})")
    structs = dict.fromkeys(match["name"] for match in _STRUCT.finditer(text))
    vectors = ["vf, vi, vd (vectors of VEC elements)"] if header == "warpsmith_simd.h" else []
    return ", ".join([*vectors, *functions.values(), *structs])


__all__ = ["describe_helpers"]

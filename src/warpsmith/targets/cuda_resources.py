"""Parses the report of NVIDIA's assembler (`ptxas -v`): registers, shared memory and spills of each kernel of a build.

Output of a compilation in, one `KernelResources` a kernel out, in the order of the report."""

from __future__ import annotations

import re

from ..records import KernelResources

_ENTRY = re.compile(r"Compiling entry function '(?P<symbol>[^']+)' for '(?P<arch>[^']+)'")
_PROPERTIES = re.compile(r"Function properties for (?P<symbol>\S+)")
_STACK = re.compile(
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads"
)
_USED = re.compile(r"Used (?P<registers>\d+) registers(?P<rest>.*)$")
_OTHER_RESOURCES = re.compile(
    r"(?P<barriers>\d+) barriers|(?P<shared>\d+) bytes smem|(?P<constant>\d+) bytes cmem"
)
_LENGTH = re.compile(r"\d+")


def parse(text: str) -> tuple[KernelResources, ...]:
    """Return the kernels whose register count the report states, without functions that are not kernels."""
    kernels: list[KernelResources] = []
    symbol = arch = subject = ""
    stack = {"stack": 0, "stores": 0, "loads": 0}
    for line in text.splitlines():
        if (entry := _ENTRY.search(line)) is not None:
            symbol, arch = entry["symbol"], entry["arch"]
            stack = dict.fromkeys(stack, 0)
        elif (properties := _PROPERTIES.search(line)) is not None:
            subject = properties["symbol"]
        elif (frame := _STACK.search(line)) is not None and subject == symbol:
            stack = {name: int(n) for name, n in frame.groupdict().items()}
        elif (usage := _USED.search(line)) is not None and symbol:
            kernels.append(_to_resources(symbol, arch, stack, int(usage["registers"]), usage["rest"]))
            symbol = ""
    return tuple(kernels)


def _to_resources(
    symbol: str, arch: str, stack: dict[str, int], registers: int, other_resources: str
) -> KernelResources:
    amounts = {"barriers": 0, "shared": 0, "constant": 0}
    for match in _OTHER_RESOURCES.finditer(other_resources):
        for name, value in match.groupdict().items():
            amounts[name] += int(value or 0)
    return KernelResources(
        name=plain_name(symbol), symbol=symbol, arch=arch, registers=registers, stack_bytes=stack["stack"],
        spill_store_bytes=stack["stores"], spill_load_bytes=stack["loads"], shared_bytes=amounts["shared"],
        constant_bytes=amounts["constant"], barriers=amounts["barriers"],
    )  # fmt: skip


def plain_name(symbol: str) -> str:
    """Demangle: `softmax` of `_Z7softmaxILi4EEvPKfPf` and of `_ZN2my7softmaxEPf`; a name that is not mangled stays."""
    offset = 3 if symbol.startswith("_ZN") else 2 if symbol.startswith("_Z") else 0
    offset += symbol[offset : offset + 1] == "L" and offset > 0
    name = symbol
    while offset and (length := _LENGTH.match(symbol, offset)) is not None:
        offset = length.end() + int(length.group())
        name = symbol[length.end() : offset]
        if not symbol.startswith("_ZN"):  # what follows are the types of its parameters
            break
    return name

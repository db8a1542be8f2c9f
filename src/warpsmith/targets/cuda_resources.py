"""What each kernel of a build takes: the report of NVIDIA's assembler (`ptxas -v`) as records.

Output of a compilation in, one `KernelResources` a kernel out, in the order of the report."""

from __future__ import annotations

import re

from ..records import KernelResources

_ENTRY = re.compile(r"Compiling entry function '(?P<symbol>[^']+)' for '(?P<arch>[^']+)'")
_OF = re.compile(r"Function properties for (?P<symbol>\S+)")
_STACK = re.compile(
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads"
)
_USED = re.compile(r"Used (?P<registers>\d+) registers(?P<rest>.*)$")
_REST = re.compile(r"(?P<barriers>\d+) barriers|(?P<shared>\d+) bytes smem|(?P<constant>\d+) bytes cmem")
_LENGTH = re.compile(r"\d+")


def parse(text: str) -> tuple[KernelResources, ...]:
    """Kernels whose register count the report states. Functions that are not kernels are left out."""
    found: list[KernelResources] = []
    symbol = arch = subject = ""
    stack = {"stack": 0, "stores": 0, "loads": 0}
    for line in text.splitlines():
        if (entry := _ENTRY.search(line)) is not None:
            symbol, arch = entry["symbol"], entry["arch"]
            stack = dict.fromkeys(stack, 0)
        elif (of := _OF.search(line)) is not None:
            subject = of["symbol"]
        elif (frame := _STACK.search(line)) is not None and subject == symbol:
            stack = {name: int(n) for name, n in frame.groupdict().items()}
        elif (used := _USED.search(line)) is not None and symbol:
            found.append(_kernel(symbol, arch, stack, int(used["registers"]), used["rest"]))
            symbol = ""
    return tuple(found)


def _kernel(symbol: str, arch: str, stack: dict[str, int], registers: int, rest: str) -> KernelResources:
    amounts = {"barriers": 0, "shared": 0, "constant": 0}
    for match in _REST.finditer(rest):
        for name, value in match.groupdict().items():
            amounts[name] += int(value or 0)
    return KernelResources(
        name=plain_name(symbol), symbol=symbol, arch=arch, registers=registers, stack_bytes=stack["stack"],
        spill_store_bytes=stack["stores"], spill_load_bytes=stack["loads"], shared_bytes=amounts["shared"],
        constant_bytes=amounts["constant"], barriers=amounts["barriers"],
    )  # fmt: skip


def plain_name(symbol: str) -> str:
    """`softmax` of `_Z7softmaxILi4EEvPKfPf` and of `_ZN2my7softmaxEPf`; what is not mangled stays."""
    at = 3 if symbol.startswith("_ZN") else 2 if symbol.startswith("_Z") else 0
    at += symbol[at : at + 1] == "L" and at > 0
    name = symbol
    while at and (length := _LENGTH.match(symbol, at)) is not None:
        at = length.end() + int(length.group())
        name = symbol[length.end() : at]
        if not symbol.startswith("_ZN"):  # what follows are the types of its parameters
            break
    return name

"""Parsers of sanitizer output make one line of each report: what happened, to which buffer, at which line of the unit.

Formats: AddressSanitizer and UndefinedBehaviorSanitizer of GCC and Clang (clang.llvm.org/docs/AddressSanitizer.html),
compute-sanitizer (docs.nvidia.com/compute-sanitizer). The harness prints where its buffers lie.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_BUFFER = re.compile(r"^buffer (\w+) (0x[0-9a-f]+) (\d+)$", re.M)
_ADDRESS = re.compile(r"ERROR: AddressSanitizer:? ([\w-]+)(?: on (?:unknown )?address (0x[0-9a-f]+))?")
_ACCESS = re.compile(r"^\s*(READ|WRITE) of size (\d+)", re.M)
_SIGNAL_ACCESS = re.compile(r"caused by a (READ|WRITE) memory access")
_UNDEFINED = re.compile(r"^(\S*?)([\w.+-]+):(\d+)(?::\d+)?: runtime error: (.+)$", re.M)
_UNIT_LINE = re.compile(r"^\s*#\d+ .*?\bunit\.cpp:(\d+)", re.M)
_WRITTEN = re.compile(r"Write access at .*?\+0x([0-9a-f]+)")
_BULK_COPY = re.compile(r"^\s*/\*([0-9a-f]+)\*/\s.*\bUBLKCP\b", re.M)
_SKIPPED = (
    "COMPUTE-SANITIZER",
    "ERROR SUMMARY",
    "RACECHECK SUMMARY",
    "Target application",
    "LEAK SUMMARY",
    "Warning:",
)
_NO_FINDING = ("Internal Sanitizer Error", "Unable to", "Error: No attachable", "Error: Target")


def find_address_error(output: str) -> tuple[str, str] | None:
    """Return ("address" | "undefined", message) of the first error that GCC's or Clang's sanitizers report."""
    undefined = _UNDEFINED.search(output)
    if undefined is not None:
        return "undefined", f"{undefined[4].strip()} ({undefined[2]}:{undefined[3]})"
    error = _ADDRESS.search(output)
    if error is None:
        return None
    report = output[error.start() :]
    access = _ACCESS.search(report)
    by_signal = _SIGNAL_ACCESS.search(report)
    access_text = (
        f"{access[1].lower()} of {access[2]} bytes"
        if access
        else by_signal[1].lower()
        if by_signal
        else error[1]
    )
    where = _describe_place(output, int(error[2], 16)) if error[2] else ""
    line = _UNIT_LINE.search(report)
    return "address", f"{access_text}{where}" + (f" (unit.cpp:{line[1]})" if line else "") + f" [{error[1]}]"


def _describe_place(output: str, address: int) -> str:
    """Describe where an address lies relative to the nearest buffer of the call that failed."""
    nearest, best = "", 1 << 63
    for name, start, size in _BUFFER.findall(output):
        first, end = int(start, 16), int(start, 16) + int(size)
        if first <= address < end:
            return f" {address - first} bytes into {name}"
        beyond = address - end if address >= end else first - address
        if beyond < best:
            side = "past its end" if address >= end else "before its start"
            nearest, best = f" outside {name}, {beyond} bytes {side}", beyond
    return nearest


def parse_compute_sanitizer(output: str) -> list[str]:
    """Return one line for each error block: its headline, and the kernel's line or address if it has one."""
    return [_join_block(block) for block in _split_blocks(output) if not block[0].startswith(_NO_FINDING)]


def find_write_addresses(report: str) -> set[int]:
    """Return the machine-code addresses of the stores that a report of a race names."""
    return {int(address, 16) for address in _WRITTEN.findall(report)}


def find_bulk_copies(sass: str) -> set[int]:
    """Return the addresses of bulk copies in the output of `cuobjdump -sass`, of all its kernels."""
    return {int(address, 16) for address in _BULK_COPY.findall(sass)}


def _split_blocks(output: str) -> Iterator[list[str]]:
    block: list[str] = []
    for line in output.splitlines():
        if not line.startswith("========="):
            continue
        text = line.removeprefix("=========")
        indented = text.startswith("  ")
        if indented and block:
            block.append(text.strip())
            continue
        if block:
            yield block
        text = text.strip()
        block = [text] if text and not indented and not text.startswith(_SKIPPED) else []
    if block:
        yield block


def _join_block(block: list[str]) -> str:
    head, *details = block
    locations = [text for text in details if text.startswith(("at ", "and "))]
    return ", ".join([head.removeprefix("Error: "), *locations[:2]])

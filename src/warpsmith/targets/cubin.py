"""What the device code of a built library holds: checked in the file, before anything loads it.

Path of a library made by nvcc in, refusals out (kind "symbol"), none when its device code keeps nothing
between launches, calls nothing and reads no clock. The machine code is read from the fat binary that the
library embeds, so it must be there uncompressed and for one architecture, without PTX that a driver would
compile anew. With it lies the PTX that it was made of, as -lineinfo has it, for what symbols do not show.

Source of the container's layout: `fatbinary_section.h` and `cuda-headers` of the CUDA toolkit; the entries'
header was read off binaries of CUDA 12 and 13."""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Iterator
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from ..records import Diagnostic
from . import symbols

MAGIC = 0xBA55ED50
ELF_KIND = 2  # of an entry; 1 is PTX
_HEADER = struct.Struct("<IHHQ")  # magic, version, bytes of this header, bytes of all entries
_ENTRY = struct.Struct("<HHIQ")  # kind, version, bytes of this header, bytes of what follows
GLOBALS = (".nv.global", ".nv.global.init")  # __device__ variables
PTX = ".nv_debug_ptx_txt"
_CLOCK = re.compile(rb"%(?:clock|globaltimer|pm\d|gridid|current_graph_exec)\w*")
_INNER = re.compile(r"_ZN(?P<length>\d+)_INTERNAL_")


class NoCubin(ValueError):
    """The fat binary is not laid out as known."""


def check(library: Path) -> tuple[Diagnostic, ...]:
    try:
        found = [text for cubin in cubins(library) for text in _refusals(cubin)]
    except (NoCubin, ELFError, struct.error) as error:
        found = [f"device code that cannot be read: {error}"]
    return tuple(Diagnostic(line=0, kind="symbol", message=m) for m in dict.fromkeys(found))


def cubins(library: Path) -> list[bytes]:
    """The ELF images of a library's device code. Raises NoCubin for anything but plain machine code."""
    with library.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".nv_fatbin")
        data = section.data() if section is not None else b""
    found: list[bytes] = []
    at = 0
    while at < len(data):
        magic, _, size, total = _HEADER.unpack_from(data, at)
        if magic != MAGIC:
            raise NoCubin("no fat binary where one should be")
        found += _entries(data[at + size : at + size + total])
        at += size + total
    return found


def _entries(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        kind, _, size, length = _ENTRY.unpack_from(data, at)
        body = data[at + size : at + size + length]
        if kind != ELF_KIND or not body.startswith(b"\x7fELF"):
            raise NoCubin("it is PTX or compressed")
        yield body
        at += size + length


def _refusals(cubin: bytes) -> Iterator[str]:
    elf = ELFFile(io.BytesIO(cubin))
    kept = {i for i, s in enumerate(elf.iter_sections()) if s.name in GLOBALS and s.header.sh_size}
    table = elf.get_section_by_name(".symtab")
    if not isinstance(table, SymbolTableSection):
        yield "device code without symbols"
        return
    held, calls = [], []
    for symbol in table.iter_symbols():
        if symbol.entry.st_shndx in kept and symbol.entry.st_info.type != "STT_SECTION":
            held.append(symbol.name)
        if symbol.entry.st_shndx == "SHN_UNDEF" and symbol.entry.st_info.bind == "STB_GLOBAL":
            calls.append(symbol.name)
    variables = sorted({symbols.plain(name) for name in held if not _of_the_toolkit(name)})
    if variables or (kept and not held):
        yield (
            f"keeps state on the device between calls: {', '.join(variables[:5]) or 'unnamed data'}"
            " must be __constant__ const, local or in the workspace"
        )
    yield from (f"device code calls {name}, which no unit may" for name in sorted(calls))
    yield from _in_ptx(elf)


def _in_ptx(elf: ELFFile) -> Iterator[str]:
    section = elf.get_section_by_name(PTX)
    if section is None:
        if any(s.name.startswith(".text.") for s in elf.iter_sections()):
            yield "device code without the PTX that it was made of"
        return
    text = section.data()
    if b"cvta.const" in text:  # constant memory lies in global memory, where a store would last
        yield "takes the address of a __constant__ table: index the table itself, or copy it"
    if (clock := _CLOCK.search(text)) is not None:
        yield f"device code reads {clock.group().decode()}, which tells one call from another"


def _of_the_toolkit(name: str) -> bool:
    """Tables of the mathematical library, and the empty objects of namespace cuda::std. Source rules keep a unit
    from using either name."""
    inner = _INNER.match(name)
    if inner is None:
        return name.startswith("__cudart_")
    return name.startswith("4cuda3std", inner.end("length") + int(inner["length"]))

"""`check` reads the device code of a built library in the file, before anything loads it.

Path of a library made by nvcc in, refusals out (kind "symbol"), none when its device code keeps nothing
between launches, calls nothing and reads no clock. The machine code is read from the fat binary that the
library embeds, so it must be there uncompressed and for one architecture, without PTX that a driver would
compile anew. The PTX that -lineinfo embeds beside it is checked for what symbols do not show.

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


class CubinError(ValueError):
    """The fat binary is not laid out as known."""


def check(library: Path) -> tuple[Diagnostic, ...]:
    try:
        messages = [text for cubin in read_cubins(library) for text in _find_refusals(cubin)]
    except (CubinError, ELFError, struct.error) as error:
        messages = [f"device code that cannot be read: {error}"]
    return tuple(Diagnostic(line=0, kind="symbol", message=m) for m in dict.fromkeys(messages))


def read_cubins(library: Path) -> list[bytes]:
    """Return the ELF images of a library's device code. Raises NoCubin for anything but plain machine code."""
    with library.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".nv_fatbin")
        data = section.data() if section is not None else b""
    images: list[bytes] = []
    offset = 0
    while offset < len(data):
        magic, _, size, total = _HEADER.unpack_from(data, offset)
        if magic != MAGIC:
            raise CubinError("no fat binary where one should be")
        images += _read_entries(data[offset + size : offset + size + total])
        offset += size + total
    return images


def _read_entries(data: bytes) -> Iterator[bytes]:
    offset = 0
    while offset < len(data):
        kind, _, size, length = _ENTRY.unpack_from(data, offset)
        body = data[offset + size : offset + size + length]
        if kind != ELF_KIND or not body.startswith(b"\x7fELF"):
            raise CubinError("it is PTX or compressed")
        yield body
        offset += size + length


def _find_refusals(cubin: bytes) -> Iterator[str]:
    elf = ELFFile(io.BytesIO(cubin))
    global_sections = {i for i, s in enumerate(elf.iter_sections()) if s.name in GLOBALS and s.header.sh_size}
    table = elf.get_section_by_name(".symtab")
    if not isinstance(table, SymbolTableSection):
        yield "device code without symbols"
        return
    variable_names, calls = [], []
    for symbol in table.iter_symbols():
        if symbol.entry.st_shndx in global_sections and symbol.entry.st_info.type != "STT_SECTION":
            variable_names.append(symbol.name)
        if symbol.entry.st_shndx == "SHN_UNDEF" and symbol.entry.st_info.bind == "STB_GLOBAL":
            calls.append(symbol.name)
    variables = sorted({symbols.plain(name) for name in variable_names if not _belongs_to_toolkit(name)})
    if variables or (global_sections and not variable_names):
        yield (
            f"keeps state on the device between calls: {', '.join(variables[:5]) or 'unnamed data'}"
            " must be __constant__ const, local or in the workspace"
        )
    yield from (f"device code calls {name}, which no unit may" for name in sorted(calls))
    yield from _check_ptx(elf)


def _check_ptx(elf: ELFFile) -> Iterator[str]:
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


def _belongs_to_toolkit(name: str) -> bool:
    """True for tables of the mathematical library and the empty objects of namespace cuda::std. Source rules keep a unit
    from using either name.
    """
    inner = _INNER.match(name)
    if inner is None:
        return name.startswith("__cudart_")
    return name.startswith("4cuda3std", inner.end("length") + int(inner["length"]))

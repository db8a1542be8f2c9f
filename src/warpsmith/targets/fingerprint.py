"""`fingerprint` hashes what a built library executes: two with one fingerprint run the same instructions on the same constants.

Path of a library in, a hash out; empty when it cannot be read. It covers every section that is loaded: the code, the constants that
code refers to (a disassembly does not show those), the functions that are imported. Of a GPU library's device code it covers the
sections of its machine code, not the line numbers and the PTX that lie beside them.
"""

from __future__ import annotations

import hashlib
import io
import re
import struct
from collections.abc import Iterator
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile

from .cubin import CubinError, read_cubins

_DEVICE = re.compile(r"\.nv_fatbin|__nv_relfatbin|\.nvFatBinSegment")
_BESIDE = re.compile(r"\.note\.|\.eh_frame")  # build ids; tables of the unwinder
_CODE = re.compile(r"\.(?:text|nv\.constant\d*|nv\.shared|nv\.info)\b")


def fingerprint(library: str | Path) -> str:
    digest = hashlib.sha256()
    try:
        for name, data in _read_loaded_sections(Path(library)):
            digest.update(f"{name}:{len(data)}:".encode() + data)
    except (OSError, ELFError, CubinError, struct.error):
        return ""
    return digest.hexdigest()[:32]


def read_device_code(library: str | Path) -> Iterator[tuple[str, bytes]]:
    """Yield kind and bytes of each section of a GPU library's machine code. Raises NoCubin, ELFError."""
    for cubin in read_cubins(Path(library)):
        yield from _read_machine_code(cubin)


def _read_loaded_sections(library: Path) -> Iterator[tuple[str, bytes]]:
    with library.open("rb") as file:
        elf = ELFFile(file)
        device = False
        for section in elf.iter_sections():
            is_device_section = _DEVICE.fullmatch(section.name) is not None
            device = device or is_device_section
            is_loaded = section.header.sh_flags & SH_FLAGS.SHF_ALLOC
            if is_loaded and not is_device_section and not _BESIDE.match(section.name):
                yield section.name, section.data()
    for cubin in read_cubins(library) if device else ():
        yield from _read_machine_code(cubin)


def _read_machine_code(cubin: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield sections by kind: their full names repeat the kernel's, which the host's part contains already."""
    for section in ELFFile(io.BytesIO(cubin)).iter_sections():
        kind = _CODE.match(section.name)
        if kind is not None:
            yield kind.group(), section.data()

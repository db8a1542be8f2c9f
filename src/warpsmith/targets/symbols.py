"""`check` reads what a built library imports, exports and runs at load, in the file, before anything loads it.

Path of a shared library in, refusals out (kind "symbol"), none when it is a plain kernel: the two entry
points exported; imports from a short list only; no other libraries needed; no code that runs at load
(constructors, indirect functions); no variables that outlive a call; no instruction that calls the system,
reads a clock or changes the floating-point mode. A unit that passes cannot open a file, start a thread or
find another library's functions except by computing an address, which the runner's own confinement is
for."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.constants import P_FLAGS, SH_FLAGS
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

from ..records import Diagnostic


@dataclass(frozen=True)
class Rules:
    """The rules of one target's libraries."""

    is_allowed_import: Callable[[str], bool]  # whether a name may be imported
    needed: re.Pattern[str]  # libraries that it may need
    compiler_variables: re.Pattern[str]
    alignment_bytes: int  # that may lie beside one of these
    at_load: str = ""  # the one function, the compiler's own, that may run at load
    notes: Mapping[str, str] = field(default_factory=dict)  # name → what to do instead


EXPORTS = frozenset({"warpsmith_run", "warpsmith_workspace_bytes"})
NEEDED = re.compile(r"(?:libc|libm|libgcc_s|libstdc\+\+|ld-linux[\w-]*|libomp|libmvec)\.so(?:\.\d+)*$")
# Of the allocators only the one that clears: what `malloc` returns may hold what an earlier call left there.
MEMORY = frozenset({
    "memcpy", "memmove", "memset", "memcmp", "bcmp", "calloc", "free", "__stack_chk_fail", "__memcpy_chk",
    "__memmove_chk", "__memset_chk",
})  # fmt: skip
ALLOCATORS = frozenset({"malloc", "realloc", "aligned_alloc", "posix_memalign", "memalign", "valloc"})
HINT = ", which returns what an earlier call left in memory: take the workspace, or calloc"
_MATH = """
    acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp10 exp2 expm1 fabs
    fdim floor fma fmax fmin fmod frexp hypot ilogb ldexp lgamma llrint llround log log10 log1p log2 logb
    lrint lround modf nearbyint nextafter pow remainder remquo rint round roundeven scalbln scalbn sin
    sincos sinh sqrt tan tanh tgamma trunc __fpclassify __isinf __isnan __finite __signbit __exp_finite
    __log_finite __pow_finite
"""
MATH = frozenset(name + suffix for name in _MATH.split() for suffix in ("", "f", "l"))
# Not GOMP_parallel_start and its kin: they return while other threads still work. No clocks.
OPENMP = re.compile(
    r"GOMP_(?:parallel(?!\w*_(?:start|end)$)\w*|loop_\w+|barrier|critical_\w+|atomic_\w+|single_\w+|ordered_\w+|sections_\w+"
    r"|task(?:wait|loop|group_\w+)?)$"
    r"|omp_get_(?!wtime|wtick)\w+$|omp_in_parallel$"
    r"|__kmpc_(?:fork_call|for_static_\w+|dispatch_\w+|barrier|critical|end_critical|reduce\w*|end_reduce\w*|single|end_single"
    r"|push_num_threads|global_thread_num|serialized_parallel|end_serialized_parallel|master|end_master|flush)$"
)
AT_LOAD = {
    "DT_INIT", "DT_FINI", "DT_INIT_ARRAY", "DT_FINI_ARRAY", "DT_PREINIT_ARRAY", "DT_AUDIT", "DT_DEPAUDIT",
    "DT_FILTER", "DT_AUXILIARY", "DT_RPATH", "DT_RUNPATH",
}  # fmt: skip
INDIRECT = ("STT_GNU_IFUNC", "STT_LOOS")
CODE_SECTIONS = frozenset({".text", ".plt", ".plt.got", ".plt.sec", ".init", ".fini", ".iplt"})
# The linker's own tables: `-z relro -z now` makes them read-only once the library is loaded.
READ_ONLY_ONCE_LOADED = re.compile(
    r"\.(?:dynamic|got(?:\.plt)?|data\.rel\.ro[\w.]*|(?:pre)?init_array|fini_array)$"
)
LOCK = ".gomp_critical_user_"  # the compiler's variable for a named critical section
LOCK_ALIGNMENT_BYTES = 32  # that may lie beside one
_PLAIN_NAME = re.compile(r"_Z.*[A-Za-z]\d+([A-Za-z_]\w*)$")
_INSTRUCTIONS = (
    ("contains a system call instruction", re.compile(r"\t(?:syscall|sysenter|int\s+\$0x80|svc\s)")),
    (
        "keeps state between calls in a register: sticky flags, protection keys, another segment",
        re.compile(
            r"\t(?:f(?:n?st(?:sw|cw|env)|n?clex|n?save|xsave\w*)|xsave\w*|(?:rd|wr)pkru)\b|%gs:|%fs:(?!0x28\b)"
        ),
    ),
    (
        "reads or changes the processor's floating-point mode, which lasts beyond the call",
        re.compile(
            r"\t(?:v?(?:ld|st)mxcsr|fldcw|fldenv|frstor|fxrstor\w*|xrstor\w*|m[sr][rs]\s[^\n]*\bfp[cs]r\b)"
        ),
    ),
    (
        "reads a clock, a random source or the thread's own registers",
        re.compile(
            r"\t(?:rdtscp?|rdpmc|rdpid|rdrand|rdseed|(?:rd|wr)[fg]sbase|mrs\s[^\n]*\b(?:cnt|pmccntr|rndr)\w*)\b"
        ),
    ),
)


def is_allowed_import(name: str) -> bool:
    return name in MEMORY or name in MATH or OPENMP.match(name) is not None


CPU = Rules(
    is_allowed_import,
    NEEDED,
    re.compile(re.escape(LOCK)),
    LOCK_ALIGNMENT_BYTES,
    notes=dict.fromkeys(ALLOCATORS, HINT),
)


def check(library: Path, rules: Rules = CPU) -> tuple[Diagnostic, ...]:
    """Check a library and return refusals. Raises nothing for a file that is no ELF library: that is a refusal, too."""
    try:
        with library.open("rb") as file:
            messages = [*_check_elf(ELFFile(file), rules), *_find_forbidden_instructions(library)]
    except ELFError as error:
        messages = [f"not a shared library: {error}"]
    return tuple(Diagnostic(line=0, kind="symbol", message=message) for message in dict.fromkeys(messages))


def _check_elf(elf: ELFFile, rules: Rules) -> Iterator[str]:
    dynamic = elf.get_section_by_name(".dynamic")
    symbols = elf.get_section_by_name(".dynsym")
    if not isinstance(dynamic, DynamicSection) or not isinstance(symbols, SymbolTableSection):
        yield "not a shared library: no dynamic section"
        return
    yield from _check_symbols(symbols, rules)
    for tag in dynamic.iter_tags():
        if tag.entry.d_tag in AT_LOAD and not (rules.at_load and tag.entry.d_tag == "DT_INIT_ARRAY"):
            yield f"runs or redirects code at load: {tag.entry.d_tag}"
        elif tag.entry.d_tag == "DT_NEEDED" and not rules.needed.match(name := str(tag.needed)):  # type: ignore[attr-defined]
            yield f"needs the library {name}"
    if rules.at_load:
        yield from _check_constructors(elf, rules.at_load)
    yield from _check_segments(elf)
    yield from _check_variables(elf, rules)
    yield from _check_code_sections(elf)


def _check_constructors(elf: ELFFile, constructor: str) -> Iterator[str]:
    """Allow one function at load at most, whose entry the loader fills with the address of `constructor`."""
    entries = elf.get_section_by_name(".init_array")
    if entries is None:
        return
    address, size = entries.header.sh_addr, entries.header.sh_size
    fixes = [
        relocation.entry
        for section in elf.iter_sections()
        if isinstance(section, RelocationSection) and section.is_RELA()
        for relocation in section.iter_relocations()
        if address <= relocation.entry.r_offset < address + size
    ]
    table = elf.get_section_by_name(".symtab")
    symbols = table.iter_symbols() if isinstance(table, SymbolTableSection) else ()
    addresses = {
        s.entry.st_value for s in symbols if s.name == constructor and s.entry.st_info.type == "STT_FUNC"
    }
    if size != elf.elfclass // 8 or [f.r_addend for f in fixes if not f.r_info_sym] != list(addresses):
        yield "runs code of its own at load: no constructors, and no variables whose initial value is computed"


def _check_segments(elf: ELFFile) -> Iterator[str]:
    for segment in elf.iter_segments():
        kind, flags = segment.header.p_type, segment.header.p_flags
        if kind == "PT_TLS":
            yield "thread-local storage keeps state between calls"
        if kind in ("PT_LOAD", "PT_GNU_STACK") and flags & P_FLAGS.PF_W and flags & P_FLAGS.PF_X:
            yield "memory that is both writable and executable"


def _check_code_sections(elf: ELFFile) -> Iterator[str]:
    """Check that sections of code have the linker's own names and contain functions only: data there could be jumped to."""
    code = {i for i, s in enumerate(elf.iter_sections()) if s.header.sh_flags & SH_FLAGS.SHF_EXECINSTR}
    for index in code:
        name = elf.get_section(index).name
        if name not in CODE_SECTIONS:
            yield f"code in a section of its own: {name}"
    table = elf.get_section_by_name(".symtab")
    if not isinstance(table, SymbolTableSection):
        yield "stripped: its functions cannot be checked"
        return
    for symbol in table.iter_symbols():
        if symbol.entry.st_shndx in code and symbol.entry.st_info.type == "STT_OBJECT":
            yield f"data among code: {symbol.name}"
        if symbol.entry.st_info.type in INDIRECT:  # a local one is not among the dynamic symbols
            yield f"runs code at load: indirect function {symbol.name}"


def _check_variables(elf: ELFFile, rules: Rules) -> Iterator[str]:
    """Refuse variables that outlive a call, such as counters, caches and flags; the compiler's own contain no data of the
    unit.
    """
    writable_flags = SH_FLAGS.SHF_WRITE | SH_FLAGS.SHF_ALLOC
    section_sizes = {
        index: section.header.sh_size
        for index, section in enumerate(elf.iter_sections())
        if section.header.sh_flags & (writable_flags | SH_FLAGS.SHF_TLS) == writable_flags
        and not READ_ONLY_ONCE_LOADED.match(section.name)
    }
    table = elf.get_section_by_name(".symtab")
    symbols = table.iter_symbols() if isinstance(table, SymbolTableSection) else ()
    variables = [s for s in symbols if s.entry.st_shndx in section_sizes and s.entry.st_size]
    compiler_variables = [s for s in variables if rules.compiler_variables.match(s.name)]
    if len(compiler_variables) < len(variables) or sum(section_sizes.values()) > sum(
        s.entry.st_size + rules.alignment_bytes for s in compiler_variables
    ):
        names = sorted({plain(s.name) for s in variables if s not in compiler_variables}) or ["unnamed data"]
        yield f"keeps state between calls: {', '.join(names[:5])} must be const, local or in the workspace"


def plain(name: str) -> str:
    """Demangle a variable: `calls` of `_ZZL4unitPKfE5calls`."""
    match = _PLAIN_NAME.match(name)
    return match[1] if match is not None else name


def _check_symbols(symbols: SymbolTableSection, rules: Rules) -> Iterator[str]:
    exported = set()
    for symbol in symbols.iter_symbols():
        if not symbol.name:
            continue
        if symbol.entry.st_shndx == "SHN_UNDEF":
            if not rules.is_allowed_import(symbol.name):
                yield f"forbidden import: {symbol.name}{rules.notes.get(symbol.name, '')}"
        elif symbol.entry.st_info.bind != "STB_LOCAL":
            exported.add(symbol.name)
        if symbol.entry.st_info.type in INDIRECT:
            yield f"runs code at load: indirect function {symbol.name}"
    yield from (f"forbidden export: {name}" for name in sorted(exported - EXPORTS))
    yield from (f"does not export {name}: does it include task.h?" for name in sorted(EXPORTS - exported))


def _find_forbidden_instructions(library: Path) -> Iterable[str]:
    """Find forbidden instructions in the disassembly; nothing where objdump is not installed."""
    objdump = shutil.which("objdump")
    if objdump is None:
        return []
    command = [objdump, "-d", "--no-show-raw-insn", str(library)]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if completed.returncode != 0:
        return ["cannot be disassembled"]
    return [message for message, pattern in _INSTRUCTIONS if pattern.search(completed.stdout)]

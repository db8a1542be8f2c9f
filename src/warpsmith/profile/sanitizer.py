"""What a candidate's units do to memory and to the language, seen by sanitizers before a winner counts.

In: a candidate, its task, its target, and evidence for its inputs. Out: `Sanitized`: findings, which tools ran,
and which could not and why. A C++ unit is compiled again with AddressSanitizer and UndefinedBehaviorSanitizer and
run in its own process between guard pages, so that a read beyond an input is seen even if its value is never
used; a CUDA unit's library runs under compute-sanitizer's memcheck, racecheck, initcheck and synccheck. Every
unit is run at every variant that it builds at, on the task's own inputs; on a GPU, where the tools make a kernel a
hundred times slower, at shapes of more than `LARGE` bytes only while it was run at none, the smallest first. One finding demotes a winner.

Not seen on a CPU: races between OpenMP threads (ThreadSanitizer does not know libgomp's barriers and reports
honest code), uninitialised reads (the judge's two poisons see those that reach a result), and reads by vector
intrinsics within the at most 63 bytes between a buffer's end and its page's.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from .. import machine
from ..errors import ToolchainError
from ..judge.correctness.evidence import Case, Evidence
from ..judge.correctness.input_families import OWN
from ..judge.device.device_lock import DeviceLock
from ..processes import sandbox
from ..processes.buffers import Scratch
from ..records import Candidate, Graph, Record, Task, Unit
from ..targets.base import Target
from ..targets.build_cache import run_confined
from ..targets.cpu import CpuTarget
from ..targets.cuda_toolkit import toolkit
from ..targets.native import HEADERS
from ..targets.task_header import requirements
from .base import Ended, run_tool
from .harness import SANITIZERS, Call, cpu_harness, cuda_harness
from .sanitizer_output import address_finding, bulk_copies, compute_sanitizer_findings, written_at

CPU_TOOLS = ("address", "undefined")
CUDA_TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:exitcode=86:hard_rss_limit_mb={memory}:allocator_may_return_null=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1:exitcode=86",
}  # fmt: skip
ERROR_CODE = 86  # of a sanitizer that found something
MOST_REPORTS = 100  # of a tool on a run
LARGE = 64 << 20  # bytes of inputs and outputs
MEMORY_MB = 8 << 10  # resident, of a sanitized process
CALLS = 2  # buffers at the end of their pages, then at their start


class Finding(Record):
    """What one tool saw one unit do."""

    tool: str  # "address", "undefined", "memcheck", …
    variant: str
    region: str  # region id of the unit
    message: str  # one line: what, where, at which line of the unit

    def __str__(self) -> str:
        return f"{self.tool} at {self.variant}: {self.message}"


class Sanitized(Record):
    findings: tuple[Finding, ...] = ()
    ran: tuple[str, ...] = ()  # tools that ran to their end on every unit and shape
    not_available: tuple[str, ...] = ()  # "tool: reason", one line each
    too_large: tuple[str, ...] = ()  # variants that were left out for their size

    @property
    def ok(self) -> bool:
        """No finding. Whether anything was looked at at all, `ran` says."""
        return not self.findings


def sanitize(
    candidate: Candidate,
    task: Task,
    target: Target,
    evidence: Evidence,
    *,
    scratch: Scratch,
    cache_dir: Path,
    seed: int,
    timeout: float = 120.0,
    device_lock: DeviceLock | None = None,
) -> Sanitized:
    """Run every unit of a candidate under the sanitizers of its target; see the module.

    `seed` of the own inputs; `timeout` in seconds for each run of a tool; `device_lock` on the device. The first finding of
    a tool on a unit ends that tool's run on it. Raises what `Evidence` raises, JudgeError on a full disk.
    """
    check: Callable[[Sequence[Prepared]], Iterator[Finding | str]]
    if not candidate.compiled:
        return Sanitized(not_available=("sanitizers: the candidate has no kernel",))
    try:
        if isinstance(target, CpuTarget):
            check = CpuSanitizer(target, cache_dir, scratch, timeout).check
            tools: Sequence[str] = CPU_TOOLS
        elif target.name == "cuda":
            compiler = getattr(target, "compiler", None)
            sanitizer = ComputeSanitizer(cache_dir, timeout, device_lock or DeviceLock(), compiler)
            check, tools = sanitizer.check, CUDA_TOOLS
        else:
            return Sanitized(not_available=(f"sanitizers: there are none for the target {target.name}",))
    except ToolchainError as error:
        return Sanitized(not_available=(f"sanitizers: {error}",))
    findings: list[Finding] = []
    missing: list[str] = []
    tried: set[str] = set()

    def run(names: Sequence[str]) -> None:
        prepared = list(calls(candidate, task, target, evidence, scratch, seed, names))
        tried.update(p.unit.region.id for p in prepared)
        for found in check(prepared) if prepared else ():
            (findings if isinstance(found, Finding) else missing).append(found)  # type: ignore[arg-type]
        for p in prepared:
            p.call.values.unlink(missing_ok=True)

    batches, spare = _batches(task, target.name)
    for names in batches:
        run(names)
    while spare and tried != {unit.region.id for unit in candidate.compiled}:
        run([spare.pop(0)])
    if not tried:
        return Sanitized(not_available=("sanitizers: no kernel of it builds here",))
    lost = {text.partition(":")[0] for text in missing}
    ran = tuple(t for t in tools if t not in lost)
    return Sanitized(
        findings=tuple(findings), ran=ran, not_available=tuple(dict.fromkeys(missing)), too_large=tuple(spare)
    )


def _batches(task: Task, target: str) -> tuple[list[list[str]], list[str]]:
    """Variants by name, those to be run together; and those to be run, one after the other, only while there is a unit that was run
    at none. On a CPU all, one at a time. On a GPU all that are small, for its tools take longer to start than to run them; the
    others, the smallest first, only while needed.
    """
    sizes = {v.name: _given_and_made(v.graph) for v in task.variants}
    if target != "cuda":
        return [[name] for name in sizes], []
    small = [name for name, size in sizes.items() if size <= LARGE]
    return [small], sorted((n for n in sizes if n not in small), key=lambda n: sizes[n])


def _given_and_made(graph: Graph) -> int:
    return sum(i.spec.nbytes for i in graph.inputs) + sum(graph.specs[o].nbytes for o in graph.returned)


class Prepared(NamedTuple):
    """A unit at a variant, ready to be run."""

    unit: Unit
    graph: Graph
    variant: str
    call: Call


def calls(
    candidate: Candidate, task: Task, target: Target, evidence: Evidence, scratch: Scratch, seed: int,
    variants: Sequence[str] | None = None,
) -> Iterator[Prepared]:  # fmt: skip
    """Each unit at each variant at which it builds, with the inputs its region gets there."""
    for variant in task.variants:
        if variants is not None and variant.name not in variants:
            continue
        specs, case = variant.graph.specs, Case(variant.name, OWN, seed)
        for unit in candidate.compiled:
            build = target.build(unit, variant.graph, variant.name)
            if not build.ok:  # its requirements do not hold at these shapes
                continue
            raw = evidence.region(case, unit.region).inputs
            given, made = [specs[i] for i in unit.region.inputs], [specs[o] for o in unit.region.outputs]
            call = Call.prepared(Path(build.library), raw, given, made, scratch.new("call"))
            yield Prepared(unit, variant.graph, variant.name, call)
        evidence.forget(case)


class CpuSanitizer:
    """AddressSanitizer and UndefinedBehaviorSanitizer through the target's own compiler. Raises ToolchainError
    where that has no such runtime.
    """

    def __init__(self, target: CpuTarget, cache_dir: Path, scratch: Scratch, timeout: float) -> None:
        self.target, self.scratch, self.timeout = target, scratch, timeout
        self.harness = cpu_harness(cache_dir, target.compiler, sanitized=True)

    def check(self, prepared: Sequence[Prepared]) -> Iterator[Finding | str]:
        for one in prepared:
            yield from self._check(*one)

    def _check(self, unit: Unit, graph: Graph, variant: str, call: Call) -> Iterator[Finding | str]:
        folder = self.scratch.new("sanitized")
        folder.mkdir()
        try:
            library = self._built(unit, graph, folder)
            if library is None:
                yield from _each("the unit does not build with the sanitizers on")
                return
            sanitized = Call(library, call.values, call.inputs, call.outputs)
            ended = self._run(sanitized.command(self.harness, CALLS), folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        found = address_finding(ended.output)
        if found is not None:
            tool, message = found
            yield Finding(tool=tool, variant=variant, region=unit.region.id, message=message)
        elif ended.code != 0:
            yield from _each(f"the sanitized unit ended with {ended.how}{_last_line(ended)}")

    def _built(self, unit: Unit, graph: Graph, folder: Path) -> Path | None:
        header = self.target.header(graph, unit.region) + requirements(unit.requires)
        (folder / "unit.cpp").write_text(unit.source)
        (folder / "task.h").write_text(header)
        flags = (*self.target.flags(unit), *SANITIZERS, "-O1", "-w", "-I", ".", "-I", str(HEADERS))
        ran = run_confined([[self.target.compiler, *flags, "-shared", "unit.cpp", "-o", "unit.so"]], folder)
        return folder / "unit.so" if ran.code == 0 and not ran.timed_out else None

    def _run(self, command: list[str], folder: Path) -> Ended:
        """Confined but for its address space, most of which is AddressSanitizer's own."""
        confined = sandbox.command(
            [folder], memory_bytes=None, cpu_seconds=int(4 * self.timeout) + 1, argv=command
        )
        env = {name: text.format(memory=MEMORY_MB) for name, text in OPTIONS.items()}
        return run_tool(confined, self.timeout, {**env, "OMP_NUM_THREADS": str(self.target.threads)})


class ComputeSanitizer:
    """compute-sanitizer on the unit's own library. Raises ToolchainError where it is not installed.

    The process is not confined: the tool needs the driver and shared memory. What it runs has passed the
    target's list of symbols and the judge's confined runs before.
    """

    def __init__(
        self, cache_dir: Path, timeout: float, device_lock: DeviceLock, compiler: str | None = None
    ) -> None:
        self._device_lock = device_lock
        kit = toolkit()
        folders = (Path(kit.nvcc).resolve().parent, kit.libraries.parent / "bin")
        found = (shutil.which("compute-sanitizer", path=str(folder)) for folder in folders)
        tool = shutil.which("compute-sanitizer") or next((path for path in found if path), None)
        if tool is None:
            raise ToolchainError("compute-sanitizer is not installed; it comes with the CUDA toolkit")
        self.tool, self.timeout = tool, timeout
        self.cuobjdump = kit.cuobjdump
        self.harness = cuda_harness(cache_dir, machine.find_compiler(compiler), kit.include, kit.libraries)

    def check(self, prepared: Sequence[Prepared]) -> Iterator[Finding | str]:
        """All tools at a time, each on all units in one process: at these sizes a run is mostly the tool's own start. A tool that
        was not content runs on each unit by itself, to tell which. They have the device to themselves, as a measurement has: none
        may be paused, since its kernel would wait on the device for the tool to take what it found, and whoever measures for the
        kernel; and beside other runs they take four times as long.
        """
        first = [(name, group) for name in CUDA_TOOLS for group in self._groups(name, prepared)]
        with self._device_lock.exclusive(), ThreadPoolExecutor(len(CUDA_TOOLS)) as pool:
            ran = list(zip(first, pool.map(lambda run: self._run(*run), first), strict=True))
            unclear = [(name, group, ended) for (name, group), ended in ran if not _clean(ended)]
            again = [(name, [one]) for name, group, _ in unclear if len(group) > 1 for one in group]
            apart = zip(again, pool.map(lambda run: self._run(*run), again), strict=True)
            told = [(name, group[0], ended) for name, group, ended in unclear if len(group) == 1]
            told += [(name, one, ended) for (name, [one]), ended in apart]
        for name, one, ended in told:
            yield from self._told(name, one, ended)

    def _groups(self, name: str, prepared: Sequence[Prepared]) -> list[list[Prepared]]:
        """What a tool runs on in one process: each unit with bulk copies by itself under racecheck, which is never content with
        them, and all others together.
        """
        together: list[Prepared] = []
        alone: list[Prepared] = []
        for one in prepared:
            (alone if name == "racecheck" and self._copies(one.call.library) else together).append(one)
        return [[one] for one in alone] + ([together] if together else [])

    def _told(self, name: str, one: Prepared, ended: Ended) -> Iterator[Finding | str]:
        reports = compute_sanitizer_findings(ended.output)
        found = self._races(reports, one.call.library) if name == "racecheck" and reports else reports
        for message in found[:1]:
            yield Finding(tool=name, variant=one.variant, region=one.unit.region.id, message=message)
        if reports and not found:
            yield f"{name}: it cannot tell whether readers wait for bulk copies, of which this unit makes some"
        elif not found and ended.code != 0:
            yield f"{name}: compute-sanitizer ended with {ended.how}{_last_line(ended)}"

    def _run(self, name: str, prepared: Sequence[Prepared]) -> Ended:
        options = ["--tool", name, "--error-exitcode", str(ERROR_CODE), "--print-limit", str(MOST_REPORTS)]
        arguments = [text for one in prepared for text in one.call.arguments(1)]
        return run_tool([self.tool, *options, str(self.harness), *arguments], self.timeout)

    def _races(self, reports: Sequence[str], library: Path) -> list[str]:
        """Without those of bulk copies (`cp.async.bulk`): racecheck takes one for a store of the thread that begins it,
        and knows nothing of the mbarrier at which it reports to its readers.
        """
        copies = self._copies(library)
        return [r for r in reports if not copies.intersection(written_at(r))]

    def _copies(self, library: Path) -> set[int]:
        if self.cuobjdump is None:
            return set()
        return bulk_copies(run_tool([self.cuobjdump, "-sass", str(library)], self.timeout).output)


def _clean(ended: Ended) -> bool:
    return ended.code == 0 and not compute_sanitizer_findings(ended.output)


def _each(reason: str) -> Iterator[str]:
    """Both of the CPU's tools run in one process."""
    return (f"{tool}: {reason}" for tool in CPU_TOOLS)


def _last_line(ended: Ended) -> str:
    lines = [line for line in ended.output.splitlines() if line.strip() and not line.startswith("buffer ")]
    return f": {lines[-1].strip()[:200]}" if lines else ""

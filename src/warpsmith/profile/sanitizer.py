"""`sanitize` runs a candidate's units under sanitizers, which find invalid memory accesses, races and undefined behaviour.

In: a candidate, its task, its target, and evidence for its inputs. Out: `SanitizerReport`: findings, which tools ran,
and which could not and why. A C++ unit is compiled again with AddressSanitizer and UndefinedBehaviorSanitizer and
run in its own process between guard pages, so that a read beyond an input is seen even if its value is never
used; a CUDA unit's library runs under compute-sanitizer's memcheck, racecheck, initcheck and synccheck. Every
unit is run at every variant that it builds at, on the task's own inputs; on a GPU, where the tools make a kernel a
hundred times slower, at shapes of more than `LARGE_BYTES` only while it was run at none,
the smallest first. One finding demotes a winner.

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
from ..targets.build_cache import run_confined
from ..targets.cpu import CpuTarget
from ..targets.cuda_toolkit import toolkit
from ..targets.native_target import HEADERS
from ..targets.target import Target
from .harness import SANITIZERS, Call, cpu_harness, cuda_harness
from .sanitizer_output import (
    find_address_error,
    find_bulk_copies,
    find_write_addresses,
    parse_compute_sanitizer,
)
from .tool_run import ToolRun, run_tool

CPU_TOOLS = ("address", "undefined")
CUDA_TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:exitcode=86:hard_rss_limit_mb={memory}:allocator_may_return_null=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1:exitcode=86",
}  # fmt: skip
ERROR_CODE = 86  # of a sanitizer that found something
MAX_REPORTS = 100  # of a tool on a run
LARGE_BYTES = 64 << 20  # of inputs and outputs
MEMORY_MB = 8 << 10  # resident, of a sanitized process
CALLS = 2  # buffers at the end of their pages, then at their start


class Finding(Record):
    """One mistake of one unit that one tool reports."""

    tool: str  # "address", "undefined", "memcheck", …
    variant: str
    region: str  # region id of the unit
    message: str  # one line: what, where, at which line of the unit

    def __str__(self) -> str:
        return f"{self.tool} at {self.variant}: {self.message}"


class SanitizerReport(Record):
    findings: tuple[Finding, ...] = ()
    ran: tuple[str, ...] = ()  # tools that ran to their end on every unit and shape
    not_available: tuple[str, ...] = ()  # "tool: reason", one line each
    too_large: tuple[str, ...] = ()  # variants that were left out for their size

    @property
    def ok(self) -> bool:
        """True without a finding; `ran` says whether any tool looked."""
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
) -> SanitizerReport:
    """Run every unit of a candidate under the sanitizers of its target; see the module.

    `seed` draws the task's own inputs; `timeout` in seconds for each run of a tool; `device_lock` on the device. The first finding of
    a tool on a unit ends that tool's run on it. Raises what `Evidence` raises, JudgeError on a full disk.
    """
    check: Callable[[Sequence[PreparedCall]], Iterator[Finding | str]]
    if not candidate.compiled:
        return SanitizerReport(not_available=("sanitizers: the candidate has no kernel",))
    try:
        if isinstance(target, CpuTarget):
            check = CpuSanitizer(target, cache_dir, scratch, timeout).check
            tools: Sequence[str] = CPU_TOOLS
        elif target.name == "cuda":
            compiler = getattr(target, "compiler", None)
            sanitizer = ComputeSanitizer(cache_dir, timeout, device_lock or DeviceLock(), compiler)
            check, tools = sanitizer.check, CUDA_TOOLS
        else:
            return SanitizerReport(
                not_available=(f"sanitizers: there are none for the target {target.name}",)
            )
    except ToolchainError as error:
        return SanitizerReport(not_available=(f"sanitizers: {error}",))
    findings: list[Finding] = []
    missing: list[str] = []
    tried: set[str] = set()

    def run(variants: Sequence[str]) -> None:
        prepared = list(prepare_calls(candidate, task, target, evidence, scratch, seed, variants))
        tried.update(p.unit.region.id for p in prepared)
        for outcome in check(prepared) if prepared else ():
            (findings if isinstance(outcome, Finding) else missing).append(outcome)  # type: ignore[arg-type]
        for p in prepared:
            p.call.values.unlink(missing_ok=True)

    batches, optional_variants = _plan_batches(task, target.name)
    for variants in batches:
        run(variants)
    while optional_variants and tried != {unit.region.id for unit in candidate.compiled}:
        run([optional_variants.pop(0)])
    if not tried:
        return SanitizerReport(not_available=("sanitizers: no kernel of it builds here",))
    failed_tools = {text.partition(":")[0] for text in missing}
    ran = tuple(t for t in tools if t not in failed_tools)
    return SanitizerReport(
        findings=tuple(findings),
        ran=ran,
        not_available=tuple(dict.fromkeys(missing)),
        too_large=tuple(optional_variants),
    )


def _plan_batches(task: Task, target: str) -> tuple[list[list[str]], list[str]]:
    """Return batches of variants' names that are run in any case, and variants that are run one after the other only
    while some unit was run at none. On a CPU each variant is a batch. On a GPU the small ones are one batch, since its tools
    take longer to start than to run them, and the others are optional, the smallest first.
    """
    sizes = {v.name: _io_bytes(v.graph) for v in task.variants}
    if target != "cuda":
        return [[name] for name in sizes], []
    small = [name for name, size in sizes.items() if size <= LARGE_BYTES]
    return [small], sorted((n for n in sizes if n not in small), key=lambda n: sizes[n])


def _io_bytes(graph: Graph) -> int:
    return sum(i.spec.nbytes for i in graph.inputs) + sum(graph.specs[o].nbytes for o in graph.returned)


class PreparedCall(NamedTuple):
    """A unit at a variant, ready to be run."""

    unit: Unit
    graph: Graph
    variant: str
    call: Call


def prepare_calls(
    candidate: Candidate, task: Task, target: Target, evidence: Evidence, scratch: Scratch, seed: int,
    variants: Sequence[str] | None = None,
) -> Iterator[PreparedCall]:  # fmt: skip
    """Prepare each unit at each variant at which it builds, with the inputs that its region gets there."""
    for variant in task.variants:
        if variants is not None and variant.name not in variants:
            continue
        specs, case = variant.graph.specs, Case(variant.name, OWN, seed)
        for unit in candidate.compiled:
            build = target.build(unit, variant.graph, variant.name)
            if not build.ok:  # its requirements do not hold at these shapes
                continue
            raw = evidence.region(case, unit.region).inputs
            input_specs, output_specs = (
                [specs[i] for i in unit.region.inputs],
                [specs[o] for o in unit.region.outputs],
            )
            call = Call.prepare(Path(build.library), raw, input_specs, output_specs, scratch.new("call"))
            yield PreparedCall(unit, variant.graph, variant.name, call)
        evidence.forget(case)


class CpuSanitizer:
    """Runs units built with AddressSanitizer and UndefinedBehaviorSanitizer by the target's compiler. Raises
    ToolchainError where that compiler has no such runtime.
    """

    def __init__(self, target: CpuTarget, cache_dir: Path, scratch: Scratch, timeout: float) -> None:
        self.target, self.scratch, self.timeout = target, scratch, timeout
        self.harness = cpu_harness(cache_dir, target.compiler, sanitized=True)

    def check(self, prepared: Sequence[PreparedCall]) -> Iterator[Finding | str]:
        for unit_call in prepared:
            yield from self._check(*unit_call)

    def _check(self, unit: Unit, graph: Graph, variant: str, call: Call) -> Iterator[Finding | str]:
        folder = self.scratch.new("sanitized")
        folder.mkdir()
        try:
            library = self._build(unit, graph, folder)
            if library is None:
                yield from _report_for_each_tool("the unit does not build with the sanitizers on")
                return
            sanitized = Call(library, call.values, call.inputs, call.outputs)
            tool_run = self._run(sanitized.command(self.harness, CALLS), folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        finding = find_address_error(tool_run.output)
        if finding is not None:
            tool, message = finding
            yield Finding(tool=tool, variant=variant, region=unit.region.id, message=message)
        elif tool_run.code != 0:
            yield from _report_for_each_tool(
                f"the sanitized unit ended with {tool_run.how}{_last_line(tool_run)}"
            )

    def _build(self, unit: Unit, graph: Graph, folder: Path) -> Path | None:
        header = self.target.unit_header(unit, graph)
        (folder / "unit.cpp").write_text(unit.source)
        (folder / "task.h").write_text(header)
        flags = (*self.target.flags(unit), *SANITIZERS, "-O1", "-w", "-I", ".", "-I", str(HEADERS))
        tool_run = run_confined(
            [[self.target.compiler, *flags, "-shared", "unit.cpp", "-o", "unit.so"]], folder
        )
        return folder / "unit.so" if tool_run.code == 0 and not tool_run.timed_out else None

    def _run(self, command: list[str], folder: Path) -> ToolRun:
        """Run confined, except for the address space, which AddressSanitizer needs without a limit."""
        confined = sandbox.command(
            [folder], memory_bytes=None, cpu_seconds=int(4 * self.timeout) + 1, argv=command
        )
        env = {name: text.format(memory=MEMORY_MB) for name, text in OPTIONS.items()}
        return run_tool(confined, self.timeout, {**env, "OMP_NUM_THREADS": str(self.target.threads)})


class ComputeSanitizer:
    """Runs the unit's own library under compute-sanitizer. Raises ToolchainError where it is not installed.

    The process is not confined: the tool needs the driver and shared memory. What it runs has passed the
    target's list of symbols and the judge's confined runs before.
    """

    def __init__(
        self, cache_dir: Path, timeout: float, device_lock: DeviceLock, compiler: str | None = None
    ) -> None:
        self._device_lock = device_lock
        cuda_toolkit = toolkit()
        folders = (Path(cuda_toolkit.nvcc).resolve().parent, cuda_toolkit.libraries.parent / "bin")
        paths = (shutil.which("compute-sanitizer", path=str(folder)) for folder in folders)
        tool = shutil.which("compute-sanitizer") or next((path for path in paths if path), None)
        if tool is None:
            raise ToolchainError("compute-sanitizer is not installed; it comes with the CUDA toolkit")
        self.tool, self.timeout = tool, timeout
        self.cuobjdump = cuda_toolkit.cuobjdump
        self.harness = cuda_harness(
            cache_dir, machine.find_compiler(compiler), cuda_toolkit.include, cuda_toolkit.libraries
        )

    def check(self, prepared: Sequence[PreparedCall]) -> Iterator[Finding | str]:
        """Run all tools at a time, each on all units in one process: at these sizes a run is mostly the tool's start. A tool
        that reports anything runs again on each unit alone, to tell which unit it is. They hold the device lock exclusively, as a
        measurement does: a paused tool would block its kernel and with it whoever measures, and beside other runs the tools take
        four times as long.
        """
        group_runs = [(name, group) for name in CUDA_TOOLS for group in self._group_calls(name, prepared)]
        with self._device_lock.hold_exclusive(), ThreadPoolExecutor(len(CUDA_TOOLS)) as pool:
            results = list(zip(group_runs, pool.map(lambda run: self._run(*run), group_runs), strict=True))
            unclear = [
                (name, group, tool_run) for (name, group), tool_run in results if not _is_clean(tool_run)
            ]
            single_runs = [
                (name, [unit_call]) for name, group, _ in unclear if len(group) > 1 for unit_call in group
            ]
            single_results = zip(single_runs, pool.map(lambda run: self._run(*run), single_runs), strict=True)
            reported = [(name, group[0], tool_run) for name, group, tool_run in unclear if len(group) == 1]
            reported += [(name, unit_call, tool_run) for (name, [unit_call]), tool_run in single_results]
        for name, unit_call, tool_run in reported:
            yield from self._explain(name, unit_call, tool_run)

    def _group_calls(self, name: str, prepared: Sequence[PreparedCall]) -> list[list[PreparedCall]]:
        """Group the calls that a tool runs in one process: each unit with bulk copies alone under racecheck, which always
        reports them, and all others together.
        """
        together: list[PreparedCall] = []
        singles: list[PreparedCall] = []
        for unit_call in prepared:
            (
                singles
                if name == "racecheck" and self._find_bulk_copies(unit_call.call.library)
                else together
            ).append(unit_call)
        return [[unit_call] for unit_call in singles] + ([together] if together else [])

    def _explain(self, name: str, unit_call: PreparedCall, tool_run: ToolRun) -> Iterator[Finding | str]:
        reports = parse_compute_sanitizer(tool_run.output)
        messages = (
            self._drop_bulk_copies(reports, unit_call.call.library)
            if name == "racecheck" and reports
            else reports
        )
        for message in messages[:1]:
            yield Finding(
                tool=name, variant=unit_call.variant, region=unit_call.unit.region.id, message=message
            )
        if reports and not messages:
            yield f"{name}: it cannot tell whether readers wait for bulk copies, of which this unit makes some"
        elif not messages and tool_run.code != 0:
            yield f"{name}: compute-sanitizer ended with {tool_run.how}{_last_line(tool_run)}"

    def _run(self, name: str, prepared: Sequence[PreparedCall]) -> ToolRun:
        options = ["--tool", name, "--error-exitcode", str(ERROR_CODE), "--print-limit", str(MAX_REPORTS)]
        arguments = [text for unit_call in prepared for text in unit_call.call.arguments(1)]
        return run_tool([self.tool, *options, str(self.harness), *arguments], self.timeout)

    def _drop_bulk_copies(self, reports: Sequence[str], library: Path) -> list[str]:
        """Drop reports of bulk copies (`cp.async.bulk`): racecheck takes one for a store of the thread that begins it,
        and does not know the mbarrier that signals its completion to the readers.
        """
        copies = self._find_bulk_copies(library)
        return [r for r in reports if not copies.intersection(find_write_addresses(r))]

    def _find_bulk_copies(self, library: Path) -> set[int]:
        if self.cuobjdump is None:
            return set()
        return find_bulk_copies(run_tool([self.cuobjdump, "-sass", str(library)], self.timeout).output)


def _is_clean(tool_run: ToolRun) -> bool:
    return tool_run.code == 0 and not parse_compute_sanitizer(tool_run.output)


def _report_for_each_tool(reason: str) -> Iterator[str]:
    """Repeat a reason for each of the CPU's tools, which run in one process."""
    return (f"{tool}: {reason}" for tool in CPU_TOOLS)


def _last_line(tool_run: ToolRun) -> str:
    lines = [line for line in tool_run.output.splitlines() if line.strip() and not line.startswith("buffer ")]
    return f": {lines[-1].strip()[:200]}" if lines else ""

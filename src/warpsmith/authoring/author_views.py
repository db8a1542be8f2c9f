"""The views that an author is shown, one record each: the same for a prompt folder, for a terminal and for MCP."""

from __future__ import annotations

from ..records import Ratio, Record, UsedPeaks


class Timed(Record):
    """A candidate's time, and its speedup over the one baseline that everything of a task is compared with on a machine."""

    us: float  # a call of the whole module as deployed; of a screened candidate an estimate
    low_us: float
    high_us: float
    estimated: bool  # put together from the units' times alone: worth a verdict, which it does not have
    baseline: str = ""  # the fixed one; empty: none was timed here yet
    baseline_us: float = 0.0
    speedup: Ratio | None = None  # over it; None: no baseline, or one of the two times is too noisy to tell
    busy: str = ""  # why the machine was too busy for a claim


class TaskRow(Record):
    """A task that can be asked for."""

    task: str  # what to pass as the task
    name: str
    where: str  # "suite core", "archive"
    about: str = ""  # first line of its documentation


class Operand(Record):
    """An input or output of a region, in the order of the ABI."""

    name: str  # "in0", "out0" in task.h
    value: str  # the graph's name of it
    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]  # in elements
    role: str  # "input", "param", "buffer", "constant", "value", "result" (the module returns it)


class RegionView(Record):
    number: int  # place among the proposed regions, from 1; 0: not one of them
    nodes: tuple[str, ...]
    ops: tuple[str, ...]
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    signature: str  # what the archive and the knowledge base are searched by
    flops: int  # of the reference
    least_bytes: int  # inputs read once, outputs written once
    limit_us: float | None = None  # speed-of-light floor alone; None: this machine's rates are not known
    bound: str = ""  # "memory" or "compute": which of the two makes the limit
    techniques: tuple[str, ...] = ()  # that the built-in expert knows for it


class TaskView(Record):
    task: str  # what to pass as the task
    name: str
    task_id: str  # content hash
    target: str
    note: str  # e.g. shape variants that had to be skipped
    source: str  # the module's Python, where it is one file
    graph: tuple[str, ...]  # one line a node
    variants: tuple[str, ...]  # other shapes at which a unit must be right, one line each
    flops: int
    least_bytes: int
    limit_us: float | None = None
    bound: str = ""
    peaks: UsedPeaks | None = None  # that this limit is computed from
    baselines: dict[str, float] = {}  # name → median microseconds; empty: not measured here yet
    hardware: str = ""
    regions: tuple[RegionView, ...] = ()


class HeaderView(Record):
    """The header that a unit for a region includes, how it is written, and one that works."""

    region: RegionView
    task_h: str  # at the main shapes
    rules: str  # markdown
    helpers: str = ""  # path of the header of small parts, on the machine that serves this
    example: str = ""  # a unit that the built-in expert wrote for the region; empty: it cannot
    others: tuple[str, ...] = ()  # correct units of other tasks for like regions, from the archive


class AttemptRow(Record):
    """One judged candidate, as the history tells it."""

    candidate: str  # id
    author: str
    operator: str
    status: str
    technique: str
    reason: str = ""  # of a failure, or why it was written
    speedup: Ratio | None = None  # over the best baseline
    limit_share: float = 0.0
    confirmed: bool = False
    here: bool = True  # judged on this machine
    timed: Timed | None = None  # None: it failed
    values: dict[str, int] = {}  # of its tunables; where units share a name, `UNIT.NAME` by the unit's place
    parents: tuple[str, ...] = ()


class BoardRow(Record):
    rank: int
    candidate: str
    author: str
    technique: str
    speedup: Ratio
    median_us: float
    limit_share: float
    confirmed: bool  # measured again in fresh processes, and no sanitizer objected
    hardware: str
    note: str = ""  # "quarantined" or "judged elsewhere"
    peaks: UsedPeaks | None = None  # that this limit is computed from
    timed: Timed | None = None
    values: dict[str, int] = {}  # of its tunables


class NodeTime(Record):
    node: str
    op: str
    us: float  # as ATen, alone


class ProfileView(Record):
    """The time of each node of the reference on this machine, and what was measured of the fastest units."""

    task: str
    hardware: str
    limit_us: float
    bound: str
    least_bytes: int
    flops: int
    baselines: dict[str, float]  # name → median microseconds
    nodes: tuple[NodeTime, ...]  # slowest first
    units: tuple[str, ...] = ()  # of the fastest candidates: one line each
    notes: tuple[str, ...] = ()
    peaks: UsedPeaks | None = None  # that this limit is computed from


class VerdictView(Record):
    candidate: str  # id: to be built upon with `onto`
    task: str
    target: str
    author: str
    correct: bool
    status: (
        str  # "ok", "screened" (right where screening looked: worth a verdict), or the stage that ended it
    )
    reason: str = ""  # one line
    evidence: tuple[
        str, ...
    ] = ()  # of a failure: diagnostics, failed checks; of a success: what was seen of each unit
    win: bool = False  # confirmed faster than the best baseline, its interval above 1
    confirmed: bool = False
    speedup: tuple[Ratio, ...] = ()  # over each baseline, the best baseline first
    median_us: float | None = None
    limit_share: float = 0.0  # share of the speed-of-light limit
    peaks: UsedPeaks | None = None  # that this limit is computed from
    labels: tuple[str, ...] = ()
    units: tuple[str, ...] = ()  # nodes of each unit
    parent: str = ""
    notes: tuple[str, ...] = ()
    hardware: str = ""
    run: str = ""  # `warpsmith report RUN`
    timed: Timed | None = None  # None: it failed
    values: dict[str, int] = {}  # of its tunables


class UnitView(Record):
    """One unit of a candidate, whole."""

    nodes: tuple[str, ...]
    language: str
    source: str  # of a unit in aten its operations
    values: dict[str, int] = {}
    domains: dict[str, tuple[int, ...]] = {}  # of its tunables
    flags: tuple[str, ...] = ()
    technique: str = ""


class SourceView(Record):
    """A candidate's sources, and how they differ from its parent's."""

    candidate: str
    task: str  # archive:ID
    target: str
    author: str
    operator: str
    parents: tuple[str, ...]
    reason: str
    units: tuple[UnitView, ...]
    difference: str = (
        ""  # from the first parent, as `diff -u` writes it; empty: none, or no parent is known here
    )
    status: str = ""  # of its last result; empty: not judged yet
    timed: Timed | None = None


class UnitCode(Record):
    """The machine code of one unit: what the compiler made of it, beside what it made of the parent's unit for the same nodes."""

    nodes: tuple[str, ...]
    available: bool = True
    reason: str = ""  # why it is not
    metrics: dict[
        str, float
    ] = {}  # name with its unit → value; on a GPU registers, spills, instructions a kernel
    parent: dict[
        str, float
    ] = {}  # the same of the parent's unit; empty: it has none for these nodes, or there is no parent
    hot_loop: tuple[str, ...] = ()  # assembly of the innermost loop that computes the most
    counters: dict[str, float] = {}  # of the hardware, where it has some and they may be read
    notes: tuple[str, ...] = ()


class CodeView(Record):
    candidate: str
    compared_with: str = ""  # the parent's id
    units: tuple[UnitCode, ...] = ()


class CheckView(Record):
    """The builds of a candidate at every shape of its task; nothing of it ran."""

    candidate: str
    ok: bool
    status: str  # "ok", "build-failed" or "refused"
    reason: str = ""
    evidence: tuple[str, ...] = ()
    seconds: float = 0.0

"""Everything that crosses a stage: one frozen record a noun, its id the hash of every field."""

from .candidate import Candidate, Hypothesis, Lineage, Region, Tunable, Unit
from .exchange import ROLES, Exchange, Lesson, Role, Usage
from .graph import ITEM_BYTES, Graph, GraphInput, GraphOutput, Node, TensorSpec, Value
from .limit import Limit, UsedPeaks
from .record import Record, content_hash
from .result import (
    STATUSES,
    UNEXPLAINED,
    Admission,
    BaselineTiming,
    Build,
    Check,
    Diagnostic,
    Environment,
    KernelResources,
    Profile,
    Ratio,
    RegionProfile,
    Result,
    Status,
    Timing,
    Verdict,
)
from .run import TOO_BUSY, Best, Budget, Elite, IslandUse, Migration, OperatorUse, RunSummary, Translation
from .task import Task, TaskSource, Variant

__all__ = [
    "ITEM_BYTES", "ROLES", "STATUSES", "TOO_BUSY", "UNEXPLAINED", "Admission", "BaselineTiming", "Best", "Budget", "Build", "Candidate", "Check",
    "Diagnostic", "Elite", "Environment", "Exchange", "Graph", "GraphInput", "GraphOutput", "Hypothesis", "IslandUse",
    "KernelResources", "Lesson", "Limit", "Lineage", "Migration", "Node", "OperatorUse", "Profile", "Ratio", "Record", "Region", "RegionProfile", "Result", "Role", "RunSummary", "Status", "Task",
    "TaskSource", "TensorSpec", "Timing", "Translation", "Tunable", "Unit", "Usage", "UsedPeaks", "Value", "Variant", "Verdict", "content_hash",
]  # fmt: skip

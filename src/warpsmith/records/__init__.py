"""Everything that crosses a stage: one frozen record a noun, its id the hash of every field."""

from .candidate import Candidate, Hypothesis, Lineage, Region, Tunable, Unit
from .exchange import ROLES, Exchange, Lesson, Role, Usage
from .graph import ITEM_BYTES, Graph, GraphInput, GraphOutput, Node, TensorSpec, Value
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
    Limit,
    Profile,
    Ratio,
    RegionProfile,
    Result,
    Status,
    Timing,
    Verdict,
)
from .run import Best, Budget, Elite, IslandUse, Migration, OperatorUse, RunSummary, Translation
from .task import Task, TaskSource, Variant

__all__ = [
    "ITEM_BYTES", "ROLES", "STATUSES", "UNEXPLAINED", "Admission", "BaselineTiming", "Best", "Budget", "Build", "Candidate", "Check",
    "Diagnostic", "Elite", "Environment", "Exchange", "Graph", "GraphInput", "GraphOutput", "Hypothesis", "IslandUse",
    "KernelResources", "Lesson", "Limit", "Lineage", "Migration", "Node", "OperatorUse", "Profile", "Ratio", "Record", "Region", "RegionProfile", "Result", "Role", "RunSummary", "Status", "Task",
    "TaskSource", "TensorSpec", "Timing", "Translation", "Tunable", "Unit", "Usage", "Value", "Variant", "Verdict", "content_hash",
]  # fmt: skip

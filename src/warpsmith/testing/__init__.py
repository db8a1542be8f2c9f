"""For authors of plug-ins: contract suites to inherit, and small fakes to test against.

A contract is a class of tests: subclass it in your own test module, fill in what it asks for, and pytest runs it.
"""

from __future__ import annotations

from .author_contract import AuthorContract
from .contracts import ExecutorContract, TunerContract
from .environment_contract import EnvironmentContract, write_unit_action
from .fakes import (
    FakeBrain,
    ScriptedExecutor,
    chain_candidate,
    chain_graph,
    chain_region,
    chain_task,
    scripted_result,
    scripted_screening,
)
from .scripted_author import ScriptedAuthorSession, write_scripted_solution, write_scripted_unit

__all__ = [
    "AuthorContract",
    "EnvironmentContract",
    "ExecutorContract",
    "FakeBrain",
    "ScriptedAuthorSession",
    "ScriptedExecutor",
    "TunerContract",
    "chain_candidate",
    "chain_graph",
    "chain_region",
    "chain_task",
    "scripted_result",
    "scripted_screening",
    "write_scripted_solution",
    "write_scripted_unit",
    "write_unit_action",
]

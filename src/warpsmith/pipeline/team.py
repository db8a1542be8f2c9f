"""The team of a run: brains from the settings, the expert where no model is named.

In: the settings, a Chat for each role that a model plays, and what the models remember. Out: a `Team`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import plugins
from ..agents.base import Credits
from ..agents.compile import CompileAgent
from ..agents.correctness import CorrectnessAgent
from ..agents.llm.memory import Memory
from ..agents.orchestrator import OrchestratorAgent
from ..agents.reasoning import ReasoningAgent
from ..agents.synthesis import SynthesisAgent
from ..archive.store import Archive
from ..config import Config
from ..facts import Facts
from ..knowledge.archive_retrieval import ArchiveRetrieval
from ..llm.chat import Chat
from ..records import Role, Task
from ..search.loop import Team
from ..targets.target import Target


def make_memory(
    config: Config, archive: Archive, run_id: str, task: Task, target: str, facts: Facts | None = None
) -> Memory:
    """Make the memory of a run's models. They are told what was known when it began, and what it learns itself. `facts`: those that it began
    with; None: those of its first situation.
    """
    began = archive.run(run_id).started_at
    retrieval = ArchiveRetrieval(
        archive, run_id=run_id, before=began, task_id=task.id, knowledge=config.knowledge,
        examples=config.examples, teach=config.lessons,
    )  # fmt: skip
    return Memory(
        retrieval, target, facts=facts, tells_examples=config.knowledge and config.examples, tells_profiles=config.profiles
    )  # fmt: skip


def make_team(
    config: Config, chats: Mapping[Role, Chat], task: Task, target: Target, memory: Memory | None
) -> Team:
    """`memory` is None where no model plays."""
    expert: Any = plugins.load("brains", "expert")()
    written = "synthesis" in chats

    def brain(role: Role) -> Any:
        if role not in chats:
            return expert
        return plugins.load("brains", "llm")(chats[role], task, target, memory, only_offers=not written)

    orchestrator = OrchestratorAgent(
        config.branches, config.variants, config.patience, config.near_limit,
        brain=brain("orchestrator") if "orchestrator" in chats else None,
        seeds=not written and "reasoning" not in chats,
    )  # fmt: skip
    return Team(
        ReasoningAgent(brain("reasoning")),
        SynthesisAgent(brain("synthesis"), workers=config.model_concurrency if written else 1, asks=written),
        CompileAgent(brain("compile")), CorrectnessAgent(brain("correctness")), orchestrator,
        plugins.load("tuners", config.tuner)(), memory.credits if memory is not None else Credits(),
    )  # fmt: skip

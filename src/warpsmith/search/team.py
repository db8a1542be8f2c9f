"""The team of one run: the five agents, the tuner, and the book of what language models wrote."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..agents.base import Credits
from ..agents.compile import CompileAgent
from ..agents.correctness import CorrectnessAgent
from ..agents.orchestrator import OrchestratorAgent
from ..agents.reasoning import ReasoningAgent
from ..agents.synthesis import SynthesisAgent
from .tuner import Tuner


@dataclass
class Team:
    """The five agents and the tuner. `credits`: which units language models wrote, and what they cost."""

    reasoning: ReasoningAgent
    synthesis: SynthesisAgent
    compile: CompileAgent
    correctness: CorrectnessAgent
    orchestrator: OrchestratorAgent
    tuner: Tuner
    credits: Credits = field(default_factory=Credits)

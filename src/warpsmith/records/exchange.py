"""Records of exchanges between a run and its language models, and of lessons from runs."""

from __future__ import annotations

from typing import Literal

from .record import Record

Role = Literal["reasoning", "synthesis", "compile", "correctness", "orchestrator"]
ROLES: tuple[Role, ...] = ("reasoning", "synthesis", "compile", "correctness", "orchestrator")


class Usage(Record):
    """Tokens of one exchange, as the provider counted them."""

    input_tokens: int = 0  # all of the input, cached or not
    cached_tokens: int = 0  # of these, read from the provider's prompt cache
    output_tokens: int = 0


class Exchange(Record):
    """One question to a language model and what came back. Failure is a value: `error` says why there is no answer."""

    key: str  # what was asked, of which model, for the how-manyth time: who asks the same again takes this answer
    role: Role
    model: str  # as it was named: "openai:gpt-5", "anthropic:…"
    system: str  # instructions, the same for many exchanges
    prompt: str
    answer: str = ""
    error: str = ""
    usage: Usage = Usage()
    usd: float | None = 0.0  # None: the price of the model is not known
    seconds: float = 0.0
    turn: int = 0


class Lesson(Record):
    """A lesson: the change that ended a kind of failure, learnt in runs, told to whoever meets the same failure again."""

    signature: str  # of the failure: stage, and its message with names, numbers and paths taken out
    target: str
    problem: str  # the failure as it read, in a line
    remedy: str  # what was changed, in a line or as a short diff
    candidate: str = ""  # id of the candidate that worked
    helped: int = 1  # times the same change worked
    failed: int = 0  # times it was told and did not work

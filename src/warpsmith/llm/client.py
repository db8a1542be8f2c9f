"""One language model, asked over the network through pydantic-ai.

In: a system text and a prompt. Out: an Exchange, always, unless a limit of the run was reached (BudgetSpent) or the
model is not to be had (ModelError). Faults that pass are waited out, as long as the provider asks and within bounds.
Whatever the server sends, no key is in what comes out: `secrets` are blotted out of answers and messages.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import ModelError
from ..records import Exchange, Role, Usage
from .background import Background
from .chat import CUT, PASSING, RUN_ENDS, BudgetSpent, Purse, question_key
from .faults import Fault, fault_of, problem_with
from .prices import Price

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import Model

DEAD_AFTER = 3  # questions in a row without any answer
MARKED = ("anthropic:", "bedrock:")  # providers that cache a prompt up to a mark only
NO_TOKENS = Usage()
ADVICE = "check its key, name and address; what was judged is kept, the same command goes on from there"
CHARACTERS_PER_TOKEN = 4  # where a server does not count


@dataclass(frozen=True)
class Patience:
    """The waiting times for faults that pass: 1, 2, 4 seconds, or what the provider asks for."""

    tries: int = 4
    tries_slow: int = 2  # of a question that timed out
    first: float = 1.0  # seconds
    longest: float = 60.0  # a provider that asks for more is given up


@dataclass(frozen=True)
class Answered:
    """The answer to one question, after retries."""

    text: str = ""
    fault: Fault | None = None
    usage: Usage = NO_TOKENS
    usd: float | None = 0.0


def mark_cached(model: str, prompt: str) -> Any:
    """The prompt with a mark behind what all questions of a run begin with, for providers that cache up to marks; others find it themselves."""
    from pydantic_ai.messages import CachePoint

    head, mark, tail = prompt.partition(f"\n{RUN_ENDS}")
    if not mark or not model.startswith(MARKED):
        return prompt
    return [head, CachePoint(), mark + tail]


class ModelClient:
    def __init__(
        self, name: str, model: Model, settings: dict[str, Any], price: Price, purse: Purse, background: Background,
        secrets: Sequence[str] = (), patience: Patience | None = None,
    ) -> None:  # fmt: skip
        self.name = name
        self._model, self._settings, self._price, self._purse = model, settings, price, purse
        self._background, self._secrets, self._patience = background, secrets, patience or Patience()
        self._unanswered = 0  # questions in a row; like the next, touched in the background's thread only
        self._dead = ""

    def ask(self, role: Role, system: str, prompt: str, turn: int = 0) -> Exchange:
        return self._background.wait(self._ask(role, system, prompt, turn))

    async def _ask(self, role: Role, system: str, prompt: str, turn: int) -> Exchange:
        self._still_possible()
        started = time.monotonic()
        try:
            async with asyncio.timeout(self._purse.seconds_left):
                answered = await self._patiently(system, prompt)
        except TimeoutError:
            reason = self._purse.find_reached_limit() or "time spent"
            cut = self._exchange(role, system, prompt, turn, Answered(), f"{CUT}{reason}", started)
            raise BudgetSpent(reason, cut) from None
        fault = answered.fault
        passing = fault is not None and fault.kind in ("passing", "slow")
        error = "" if fault is None else f"{PASSING if passing else ''}{fault.text}"
        exchange = self._exchange(role, system, prompt, turn, answered, error, started)
        self._purse.book(exchange)
        self._note_health(fault)
        return exchange

    def _exchange(
        self, role: Role, system: str, prompt: str, turn: int, got: Answered, error: str, started: float
    ) -> Exchange:
        return Exchange(
            key=question_key(role, self.name, system, prompt, turn), role=role, model=self.name, system=system,
            prompt=prompt, answer=self._clean(got.text), usage=got.usage, usd=got.usd, turn=turn,
            error=self._clean(error), seconds=round(time.monotonic() - started, 3),
        )  # fmt: skip

    def _still_possible(self) -> None:
        if self._dead:
            raise ModelError(self._dead)
        reached = self._purse.find_reached_limit()
        if reached is not None:
            raise BudgetSpent(reached)

    def _note_health(self, fault: Fault | None) -> None:
        """Raises ModelError when the model is not to be had."""
        answered = fault is None or fault.kind == "question"
        self._unanswered = 0 if answered else self._unanswered + 1
        if fault is not None and (fault.kind == "final" or self._unanswered >= DEAD_AFTER):
            where = f" at {self._price.base_url}" if self._price.base_url else ""
            row = "" if fault.kind == "final" else f", {self._unanswered} questions in a row"
            self._dead = self._clean(f"{self.name}{where}: {fault.text}{row}; {ADVICE}")
            raise ModelError(self._dead)

    async def _patiently(self, system: str, prompt: str) -> Answered:
        """The answer, or the fault that was left after the last try."""
        patience, tried = self._patience, 0
        while True:
            answered = await self._once(system, prompt)
            tried += 1
            fault = answered.fault
            tries = {"passing": patience.tries, "slow": patience.tries_slow}.get(
                fault.kind if fault else "", 1
            )
            if fault is None or tried >= tries:
                return answered
            wait = patience.first * 2 ** (tried - 1) if fault.wait is None else fault.wait
            if wait > patience.longest:
                return Answered(fault=Fault("passing", f"{fault.text}; it asks for a wait of {wait:.0f} s"))
            await asyncio.sleep(wait)

    async def _once(self, system: str, prompt: str) -> Answered:
        from pydantic_ai.direct import model_request
        from pydantic_ai.messages import ModelRequest, UserPromptPart

        question = ModelRequest(parts=[UserPromptPart(mark_cached(self.name, prompt))], instructions=system)
        try:
            response = await model_request(self._model, [question], model_settings=self._settings)  # type: ignore[arg-type]
        # The answer is made by another program: odd ones raise whatever the client libraries trip over.
        except Exception as error:  # noqa: BLE001
            return Answered(fault=fault_of(error))
        return self._read(response, len(system) + len(prompt))

    def _read(self, response: ModelResponse, asked: int) -> Answered:
        # A lone surrogate, which JSON can say, is no text that can be kept.
        text = (response.text or "").encode("utf-8", "replace").decode()
        problem, used = problem_with(response, text), response.usage
        counts = min(used.input_tokens, used.output_tokens) > 0
        counted = Usage(
            input_tokens=used.input_tokens if counts else asked // CHARACTERS_PER_TOKEN,
            cached_tokens=used.cache_read_tokens if counts else 0,
            output_tokens=used.output_tokens if counts else len(text) // CHARACTERS_PER_TOKEN,
        )
        fault = Fault("question", problem) if problem else None
        partial = "" if problem and response.finish_reason != "length" else text
        return Answered(partial, fault, counted, self._price.usd(used if counts else counted))

    def _clean(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "[key]")
        return text

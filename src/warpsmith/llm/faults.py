"""The faults of a question, and what follows from each: ask again, give this question up, or give the model up.

In: an exception of pydantic-ai, or its response. Out: a `Fault`, with a text of one short line for people.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse

MAX_ANSWER_CHARACTERS = 1 << 18  # of an answer; a whole unit is a tenth of it
MAX_MESSAGE_CHARACTERS = 200  # characters of a provider's message
TOO_LONG = re.compile(r"context (size|length|window)", re.IGNORECASE)

Kind = Literal[
    "question",  # this question got no usable answer
    "rejected",  # the request was refused: another one may pass
    "passing",  # may go well at another time
    "slow",  # took too long: the same, but asked again only once
    "final",  # no question to this model will pass
]


@dataclass(frozen=True)
class Fault:
    kind: Kind
    text: str
    wait: float | None = None  # seconds that the provider asks for


def fault_of(error: Exception) -> Fault:
    from pydantic_ai import exceptions as e

    wait = getattr(error, "retry_after", None)
    message = _describe_error(error)
    if isinstance(error, e.ModelAuthenticationError):
        return Fault("final", f"the key is refused ({message})")
    if isinstance(error, e.ModelNotFoundError):
        return Fault("final", f"no such model there, or a wrong address ({message})")
    if isinstance(error, e.ModelQuotaExceededError):
        return Fault("final", f"the account has nothing left ({message})")
    if isinstance(error, e.ModelRequestRejectedError):
        # llama.cpp and vLLM say it in words, which pydantic-ai does not read.
        if isinstance(error, e.ModelContextWindowExceededError) or TOO_LONG.search(message):
            return Fault("question", f"the question is too long for this model ({message})")
        return Fault("rejected", f"the request is refused ({message})")
    if isinstance(error, e.ContentFilterError):
        return Fault("question", f"refused by the provider's filter ({message})")
    if isinstance(error, e.ModelTimeoutError | e.ModelRequestTimeout):
        return Fault("slow", message)
    if isinstance(error, e.ModelRateLimitError):
        return Fault("passing", f"too many requests ({message})", wait)
    if isinstance(error, e.ModelUnavailableError | e.ModelServerError):
        return Fault("passing", f"the server failed ({message})", wait)
    if isinstance(error, e.ModelConnectionError):
        return Fault("passing", f"cannot be reached ({message})")
    return Fault("passing", f"what came back cannot be read ({type(error).__name__}: {message})")


def _describe_error(error: Exception) -> str:
    """Status and message, in one line of bounded length."""
    body = getattr(error, "body", None)
    message = body.get("message", body) if isinstance(body, dict) else body or error
    status = getattr(error, "status_code", None)
    text = " ".join(f"{status or ''} {message}".split())
    return text if len(text) <= MAX_MESSAGE_CHARACTERS else f"{text[:MAX_MESSAGE_CHARACTERS]}…"


def problem_with(response: ModelResponse, text: str) -> str:
    """Why the text of a response is no usable answer; empty when it is one."""
    if response.finish_reason == "content_filter":
        said = (response.provider_details or {}).get("refusal", "")
        return f"the model refused{f': {str(said)[:MAX_MESSAGE_CHARACTERS]}' if said else ''}"
    if response.finish_reason == "length":
        return f"cut off after {response.usage.output_tokens} tokens (setting max_answer_tokens)"
    if len(text) > MAX_ANSWER_CHARACTERS:
        return f"an answer of {len(text):,} characters is not taken; at most {MAX_ANSWER_CHARACTERS:,} are"
    return "" if text.strip() else "an empty answer"

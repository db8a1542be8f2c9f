"""Read what a language model answered as an action.

In: text, or a conversation whose last message is the answer. Out: an `Action`: a unit where a block begins as units do, else a solution. What holds
neither becomes a solution all the same: the judge says what is wrong with it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..authoring.actions import MAX_SOLUTION_CHARACTERS, Action
from ..authoring.answers import Answer
from ..targets.front_matter import FIRST_LINE

_BLOCK = re.compile(r"^```[^\n]*\n(.*?)(?:^```|\Z)", re.DOTALL | re.MULTILINE)
Completion = str | Sequence[Mapping[str, Any]]  # a text, or messages with "content"


def read_completion(completion: Completion) -> Action:
    """Read the last block of code that is a unit or defines ModelNew, else the last block, else the whole text."""
    text = completion if isinstance(completion, str) else _read_last_message(completion)
    text = text.encode(errors="replace").decode()  # a half of a surrogate pair is no text
    blocks = [block.strip() for block in _BLOCK.findall(text)] or [text.strip()]
    chosen = next((b for b in reversed(blocks) if b.startswith(FIRST_LINE) or "ModelNew" in b), blocks[-1])
    if chosen.startswith(FIRST_LINE):
        return Action(units=(Answer(source=chosen),))
    return Action(solution=chosen[:MAX_SOLUTION_CHARACTERS] or "# an empty answer")


def _read_last_message(messages: Sequence[Mapping[str, Any]]) -> str:
    content = messages[-1].get("content") if messages else ""
    return content if isinstance(content, str) else ""


__all__ = ["Completion", "read_completion"]

"""The contents of a model's answer: a unit file, edits of one, or JSON. Everything else in it is ignored.

Text in, a checked value out, or a `Problem`: one line that says what is wrong and what is wanted instead, fit to be sent
back. No text raises anything else, and the time is linear in its length.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Literal

from ...errors import UsageError
from ...records import Region, Unit
from ...targets.front_matter import FIRST_LINE, unit_from_source

MAX_ANSWER_CHARACTERS = 400_000  # characters; a unit file is a hundredth of that
MAX_NOTE_CHARACTERS = 400  # of a rationale or reflection that are kept
_NOTE = re.compile(r"^\W{0,4}(?:Rationale|Reflection)\W{1,4}(.+?)\s*$", re.MULTILINE)
STARTS = 40  # places at which JSON is looked for

Language = Literal["c++", "cuda"]


class Problem(Exception):
    """The fault of an answer, in one line."""


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    closed: bool


@dataclass(frozen=True)
class Edit:
    search: str
    replace: str


def read_unit(answer: str, region: Region, language: Language, parent: Unit | None = None) -> Unit:
    """The unit that an answer gives: a whole file in a fenced block, or edits of `parent`. Raises Problem."""
    source = read_source(answer, parent.source if parent is not None else None)
    try:
        unit = unit_from_source(source, region, language=language)
    except (UsageError, ValueError) as error:
        raise Problem(f"front matter: {str(error)[:300]}") from None
    check_abi(source, region)
    return unit


def read_source(answer: str, parent: str | None = None) -> str:
    """The text of the unit file. Raises Problem."""
    if len(answer) > MAX_ANSWER_CHARACTERS:
        raise Problem(
            f"the answer has {len(answer)} characters; {MAX_ANSWER_CHARACTERS} is the most that is read"
        )
    try:
        answer.encode()
    except UnicodeEncodeError:
        raise Problem("the answer is not valid Unicode text") from None
    if answer.strip().startswith(FIRST_LINE):
        return answer.strip() + "\n"
    blocks = find_fenced_blocks(answer)
    units = [b for b in blocks if b.text.lstrip().startswith(FIRST_LINE)]
    if len(units) > 1:
        raise Problem(f"{len(units)} unit files: give exactly one")
    if units:
        if not units[0].closed:
            raise Problem("the code block is not closed: the answer was cut off; write a shorter file")
        return units[0].text.strip() + "\n"
    changes = edits(answer)
    if changes and parent is not None:
        return apply_edits(changes, parent)
    if changes:
        raise Problem("there is no parent to edit: give the whole file")
    if blocks:
        raise Problem(f"no fenced block begins with the line '{FIRST_LINE}'")
    raise Problem("no fenced code block in the answer")


def read_note(answer: str) -> str:
    """The author's rationale or reflection: what stands outside of code behind one of these words; empty: there is none."""
    before = re.split(
        r"^(?:```|~~~|<{5,9} ?SEARCH)", answer[:MAX_ANSWER_CHARACTERS], maxsplit=1, flags=re.MULTILINE
    )[0]
    notes = _NOTE.findall(before)
    return one_line(" ".join(notes), MAX_NOTE_CHARACTERS)


def find_fenced_blocks(text: str) -> list[Block]:
    """Fenced blocks, as CommonMark has them, in order; the last may be open."""
    blocks: list[Block] = []
    fence, language, body = "", "", list[str]()
    for line in text.splitlines():
        mark = line.strip()
        if fence:
            if mark and mark[0] == fence[0] and len(mark) >= len(fence) and mark == mark[0] * len(mark):
                blocks.append(Block(language, "\n".join(body), True))
                fence = ""
            else:
                body.append(line)
        elif mark.startswith(("```", "~~~")):
            word = mark.lstrip(mark[0])
            if mark[0] not in word:
                fence, language, body = mark[: len(mark) - len(word)], word.strip().lower(), []
    return [*blocks, Block(language, "\n".join(body), False)] if fence else blocks


def edits(text: str) -> list[Edit]:
    """Search/replace blocks, in order; malformed ones are left out."""
    parsed: list[Edit] = []
    part = ""  # where we are: "", "search", "replace"
    search, replace = list[str](), list[str]()
    for line in text.splitlines():
        mark = line.rstrip()
        if re.fullmatch(r"<{5,9} ?SEARCH", mark):
            part, search, replace = "search", [], []
        elif part == "search" and re.fullmatch(r"={5,9}", mark):
            part = "replace"
        elif part == "replace" and re.fullmatch(r">{5,9} ?REPLACE", mark):
            parsed.append(Edit("\n".join(search), "\n".join(replace)))
            part = ""
        elif part:
            (search if part == "search" else replace).append(line)
    return parsed


def apply_edits(changes: list[Edit], source: str) -> str:
    """The source after every edit. Raises Problem when one does not name exactly one place."""
    for number, edit in enumerate(changes, 1):
        count = source.count(edit.search) if edit.search.strip() else 0
        if count != 1:
            problem = "is not in the parent" if count == 0 else f"is {count} times in the parent"
            raise Problem(f"edit {number}: its SEARCH text {problem}; copy it exactly, with lines around it")
        source = source.replace(edit.search, edit.replace)
    return source


def check_abi(source: str, region: Region) -> None:
    """Raises Problem for a wrong entry point, in plainer words than a compiler's."""
    if re.search(r"torch/extension\.h|PYBIND11_MODULE|#\s*include\s*<(?:torch|ATen)/", source):
        raise Problem(
            "units use no torch or pybind headers: one function `static void unit(…)` with plain pointers"
        )
    if not re.search(r'#\s*include\s*"task\.h"', source):
        raise Problem('the file does not include "task.h"')
    expected = len(region.inputs) + len(region.outputs) + 2
    counts = [_parameters(source, m.end()) for m in re.finditer(r"\bvoid\s+unit\s*\(", source)]
    if not counts:
        raise Problem("the file defines no `static void unit(…)`")
    if expected not in counts:
        raise Problem(
            f"unit() takes {counts[0]} parameters, but task.h declares {expected}: "
            f"{len(region.inputs)} inputs, {len(region.outputs)} outputs, workspace, stream"
        )


def _parameters(source: str, start: int) -> int:
    """Count the parameters of a list that begins at `start`, behind its parenthesis."""
    end = source.find(")", start)
    inside = source[start : end if end >= 0 else start]
    return inside.count(",") + 1 if inside.strip() else 0


def read_json(answer: str, kind: type[list[Any]] | type[dict[str, Any]]) -> Any:
    """The JSON list or object of an answer: all of it, in a fenced block, or after some words. Raises Problem."""
    if len(answer) > MAX_ANSWER_CHARACTERS:
        raise Problem(
            f"the answer has {len(answer)} characters; {MAX_ANSWER_CHARACTERS} is the most that is read"
        )
    for text in (answer.strip(), *(b.text for b in find_fenced_blocks(answer)[:STARTS])):
        value = _decode(text)
        if isinstance(value, kind):
            return value
    opening = "[" if kind is list else "{"
    at = answer.find(opening)
    for _ in range(STARTS):
        if at < 0:
            break
        value = _decode(answer[at:], is_complete=False)
        if isinstance(value, kind) and all(isinstance(item, dict) for item in value if kind is list):
            return value  # a list of something else is an index, or a word in brackets
        at = answer.find(opening, at + 1)
    raise Problem(f"no JSON {'list' if kind is list else 'object'} in the answer")


def _decode(text: str, is_complete: bool = True) -> Any:
    """Decode JSON; None for text that is no JSON, or is nested too deep."""
    try:
        return json.loads(text) if is_complete else json.JSONDecoder().raw_decode(text)[0]
    except (ValueError, RecursionError):
        return None


def one_line(text: str, max_characters: int) -> str:
    """Return a model's words as one printable line of at most `max_characters` characters."""
    clean = text[: 8 * max_characters].encode("utf-8", "replace").decode()
    return " ".join("".join(c if c.isprintable() else " " for c in clean).split())[:max_characters]

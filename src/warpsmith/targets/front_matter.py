"""A unit's front matter: the comment block at the top of its source that says what the code cannot.

    // warpsmith-unit: 1
    // family: softmax   technique: two-pass
    // tunable: UNROLL = 2 {1, 2, 4}
    // requires: in0_shape[1] % 4 == 0
    // flags: -funroll-loops
    // atomics: yes
    // tensor-map: A = in0 {BLOCK_M, BLOCK_K} swizzle 128

Text in, `FrontMatter` (or a `Unit`) out, and back. The block ends with the first line that is not a `//`
comment. Comment lines without one of these keys are prose; a key that is nearly one of these is an error,
since a silent typo would drop a tunable."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Literal

from ..errors import UsageError
from ..records import Record, Region, Tunable, Unit
from .tensor_maps import MOST, TensorMap, parse_tensor_map, render_tensor_map

FIRST_LINE = "// warpsmith-unit: 1"
KEYS = ("family", "technique", "tunable", "requires", "flags", "atomics", "tensor-map")
RESERVED = {"THREADS", "WORKSPACE_BYTES", "VARIANT"}
MAX_DOMAIN = 64

_KEY = re.compile(r"//\s*([A-Za-z][\w-]*)\s*:\s*(.*?)\s*$")
_FAMILY = re.compile(r"(?P<family>\S*?)(?:(?:^|\s+)technique:\s*(?P<technique>.*))?$")
_TUNABLE = re.compile(r"(?P<name>\w+)\s*=\s*(?P<value>-?\d+)\s*\{(?P<domain>[^{}]*)\}$")
_NAME = re.compile(r"[A-Z][A-Z0-9_]*$")
_TERM = r"(?:(?:in|out)\d+_(?:shape|stride)\[\d+\]|(?:in|out)\d+_(?:numel|rank)|[A-Z][A-Z0-9_]*|\d+)"
_REQUIRES = re.compile(rf"\s*(?:{_TERM}|<=|>=|==|!=|&&|\|\||[-+*/%<>()!]|\s)++$")


class FrontMatterError(UsageError):
    """The comment block is malformed; the message names the line."""


class FrontMatter(Record):
    family: str = ""
    technique: str = ""
    tunables: tuple[Tunable, ...] = ()
    requires: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    atomics: bool = False
    tensor_maps: tuple[TensorMap, ...] = ()


def parse(source: str) -> FrontMatter:
    """Parse the comment block of a source. Raises FrontMatterError, one line with the line number."""
    lines = source.splitlines()
    if not lines or " ".join(lines[0].split()) != FIRST_LINE:
        raise FrontMatterError(f"line 1: a unit's source starts with '{FIRST_LINE}'")
    values: dict[str, list[str]] = {key: [] for key in KEYS}
    tunables: list[Tunable] = []
    maps: list[TensorMap] = []
    for number, line in enumerate(lines[1:], 2):
        if not line.lstrip().startswith("//"):
            break
        key, text = _split(line.strip(), number)
        if key == "tunable":
            tunables.append(_parse_tunable(text, number, tunables))
        elif key == "tensor-map":
            maps.append(_parse_map(text, number, maps))
        elif key == "family":
            match = _FAMILY.match(text)
            if match is None:
                raise FrontMatterError(f"line {number}: a family is one word, not '{text}'")
            values["family"].append(match["family"])
            values["technique"] += [match["technique"]] if match["technique"] else []
        elif key is not None:
            values[key] += _parse_values(key, text, number)
    return FrontMatter(
        family=_last(values["family"]),
        technique=_last(values["technique"]),
        tunables=tuple(tunables),
        requires=tuple(values["requires"]),
        flags=tuple(values["flags"]),
        atomics=_last(values["atomics"]) == "yes",
        tensor_maps=tuple(maps),
    )


def render(matter: FrontMatter) -> str:
    """Write the comment block, one newline after each line. `parse(render(m)) == m` for every m that parse can
    return."""
    lines = [FIRST_LINE]
    if matter.family or matter.technique:
        technique = f"   technique: {matter.technique}" if matter.technique else ""
        lines.append(f"// family: {matter.family}{technique}")
    for t in matter.tunables:
        lines.append(f"// tunable: {t.name} = {t.value} {{{', '.join(map(str, t.domain))}}}")
    lines += [f"// requires: {text}" for text in matter.requires]
    if matter.flags:
        lines.append(f"// flags: {' '.join(matter.flags)}")
    if matter.atomics:
        lines.append("// atomics: yes")
    lines += [f"// tensor-map: {render_tensor_map(m)}" for m in matter.tensor_maps]
    return "\n".join(lines) + "\n"


def is_valid_requirement(text: str) -> bool:
    """True when a requirement compares shapes, tunables and numbers, and does nothing else."""
    return "\n" not in text and _REQUIRES.match(text) is not None


def body(source: str) -> str:
    """Return the source without its comment block."""
    lines = source.splitlines(keepends=True)
    start = next((i for i, line in enumerate(lines) if not line.lstrip().startswith("//")), len(lines))
    return "".join(lines[start:])


def fill_in_choices(unit: Unit) -> str:
    """Return the source with the measured values and flags as its defaults, so that the file alone says what was built.
    A source without front matter stays as it is.
    """
    text = unit.source
    try:
        declared = parse(text).flags
    except FrontMatterError:
        return text
    for t in unit.tunables:
        patterns = (
            rf"^([ \t]*//[ \t]*tunable:[ \t]*{t.name}[ \t]*=[ \t]*|#ifndef {t.name}\n#define {t.name} )-?\d+"
        )
        text = re.sub(patterns, rf"\g<1>{t.value}", text, flags=re.MULTILINE)
    added_flags = [flag for flag in unit.flags if flag not in declared]
    first, newline, remainder = text.partition("\n")
    return f"{first}\n// flags: {' '.join(added_flags)}{newline}{remainder}" if added_flags else text


def unit_from_source(
    source: str,
    region: Region,
    values: Mapping[str, int] | None = None,
    language: Literal["c++", "cuda"] = "c++",
) -> Unit:
    """Make the unit that a source file describes, at its default values or at `values` (name → value).

    Raises FrontMatterError for a malformed block, a name that is not a tunable, or a value outside its
    domain."""
    matter = parse(source)
    values = dict(values or {})
    tunables = tuple(_set_value(t, values.pop(t.name, t.value)) for t in matter.tunables)
    if values:
        raise FrontMatterError(f"{', '.join(sorted(values))}: not a tunable of this unit")
    return Unit(
        region=region, language=language, source=source, tunables=tunables, flags=matter.flags,
        requires=matter.requires, family=matter.family, technique=matter.technique, atomics=matter.atomics,
    )  # fmt: skip


def _set_value(tunable: Tunable, value: int) -> Tunable:
    if value not in tunable.domain:
        raise FrontMatterError(
            f"{tunable.name} = {value} is not in {{{', '.join(map(str, tunable.domain))}}}"
        )
    return tunable.model_copy(update={"value": value})


def _split(line: str, number: int) -> tuple[str | None, str]:
    match = _KEY.match(line)
    if match is None:
        return None, ""
    key, text = match.groups()
    if key in KEYS:
        return key, text
    close_keys = difflib.get_close_matches(key.lower(), KEYS, n=1, cutoff=0.75)
    if close_keys:
        raise FrontMatterError(f"line {number}: '{key}:' is not a key; did you mean '{close_keys[0]}:'?")
    return None, ""


def _parse_values(key: str, text: str, number: int) -> list[str]:
    if key == "flags":
        return text.split()
    if not text:
        raise FrontMatterError(f"line {number}: '{key}:' needs a value")
    if key == "requires" and not is_valid_requirement(text):
        raise FrontMatterError(
            f"line {number}: 'requires: {text}' may compare shapes, tunables and numbers only"
        )
    if key == "atomics" and text not in ("yes", "no"):
        raise FrontMatterError(f"line {number}: 'atomics:' is yes or no")
    return [text]


def _parse_tunable(text: str, number: int, before: list[Tunable]) -> Tunable:
    match = _TUNABLE.match(text)
    if match is None:
        raise FrontMatterError(
            f"line {number}: a tunable reads 'NAME = value {{value, value, …}}', not '{text}'"
        )
    name, value = match["name"], int(match["value"])
    try:
        domain = tuple(int(v) for v in match["domain"].split(","))
    except ValueError:
        raise FrontMatterError(f"line {number}: the values of {name} must be integers") from None
    if not _NAME.match(name) or name in RESERVED:
        raise FrontMatterError(f"line {number}: '{name}' cannot name a tunable; use capitals, digits and _")
    if name in (t.name for t in before):
        raise FrontMatterError(f"line {number}: tunable {name} appears twice")
    if value not in domain or len(set(domain)) != len(domain) or len(domain) > MAX_DOMAIN:
        raise FrontMatterError(
            f"line {number}: {name} needs up to {MAX_DOMAIN} distinct values, its default {value} among them"
        )
    return Tunable(name=name, domain=domain, value=value)


def _parse_map(text: str, number: int, before: list[TensorMap]) -> TensorMap:
    declared = parse_tensor_map(text)
    if declared is None:
        raise FrontMatterError(
            f"line {number}: a tensor map reads 'NAME = in0 {{rows, columns}} swizzle 128', with at most five extents, not '{text}'"
        )
    if declared.name in (m.name for m in before) or len(before) == MOST:
        raise FrontMatterError(
            f"line {number}: tensor map {declared.name} is declared twice, or is more than {MOST}"
        )
    return declared


def _last(values: list[str]) -> str:
    return values[-1] if values else ""

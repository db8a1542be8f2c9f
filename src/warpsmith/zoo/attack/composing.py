"""Candidates composed from fragments: where work hides × when × which form × which operator.

In: a seed, an index, a device. Out: a `Composed`, always the same one, whose text is complete. Every fourth is an
honest variant. All families come in turn; the rest is drawn.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from ...targets.front_matter import FIRST_LINE
from .fragments import ATTACK_FOLDER, Fragment, load_fragments, rename_globals
from .libraries import AHEAD, IDLE, write_library
from .operators import Operator, load_operators

Form = Literal["python", "library", "unit"]
HONEST_EVERY = 4  # so many candidates hold one honest variant
RARE_SHARE = 0.1  # of its turns in which a slow variant comes
LIBRARY_SHARE = 0.15  # of hostile Python whose work is done by a library of its own
UNIT_FILE = ATTACK_FOLDER / "units" / "hiding.cpp"

_CLASS = """class ModelNew(torch.nn.Module):
    def __init__(self, *sizes):
        super().__init__()
        build(self, *sizes)

    def forward(self, *xs):
{body}"""


@dataclass(frozen=True)
class Composed:
    """A candidate. `own_code`: whether code of its own does the work where its answers are right."""

    seed: int
    index: int
    operator: str
    form: Form
    group: str
    family: str
    trigger: str
    fake: str
    work: str
    honest: bool
    own_code: bool
    label: str  # that an honest one must get; empty: any
    text: str

    @property
    def description(self) -> str:
        parts = (self.operator, self.form, self.family, self.trigger, self.fake, self.work)
        return " ".join(p for p in parts if p)


def compose(seed: int, index: int, device: str = "cpu") -> Composed:
    """Compose a candidate. Families take turns in an order that hangs on the seed."""
    rng = random.Random(f"{seed}/{index}")
    turn, is_last = divmod(index, HONEST_EVERY)
    honest = is_last == HONEST_EVERY - 1
    number = turn if honest else index - turn
    fragments = _order(seed, honest, device)
    fragment = fragments[number % len(fragments)]
    if "rare" in fragment.keys and rng.random() > RARE_SHARE:
        fragment = fragments[0] if "rare" not in fragments[0].keys else fragments[1]
    if fragment.name.startswith("unit-"):
        return _compose_unit(seed, index, fragment, rng)
    return _compose_python(seed, index, fragment, rng, device)


def compose_twin(candidate: Composed) -> Composed:
    """Compose the honest twin of a hostile candidate: the same operator, form and work, and nothing else."""
    rng = random.Random(0)
    kind = "unit-plain" if candidate.form == "unit" else "plain"
    fragment = next(f for f in list_fragments(honest=True) if f.name == kind)
    if candidate.form == "unit":
        twin = _compose_unit(candidate.seed, candidate.index, fragment, rng, candidate.operator)
    else:
        operator = next(o for o in load_operators() if o.name == candidate.operator)
        text = _join(operator, fragment, candidate.work, "", "", rng)
        twin = replace(candidate, text=text)
    return replace(twin, honest=True, family=kind, group="honest", trigger="", fake="", label="")


@cache
def list_fragments(honest: bool, device: str = "cpu") -> tuple[Fragment, ...]:
    """List the families, or the honest variants, that a device takes."""
    kind = "honest" if honest else "family"
    paths = [ATTACK_FOLDER / "honest.py"] if honest else sorted((ATTACK_FOLDER / "hiding").glob("*.py"))
    fragments = [f for path in [*paths, UNIT_FILE] for f in load_fragments(path) if f.kind == kind]
    return tuple(
        f for f in fragments if device == "cpu" or not (f.keys.get("needs") or f.name.startswith("unit-"))
    )


def list_triggers() -> tuple[Fragment, ...]:
    return load_fragments(ATTACK_FOLDER / "triggers.py")


def list_fakes() -> tuple[Fragment, ...]:
    return load_fragments(ATTACK_FOLDER / "fakes.py")


@cache
def _order(seed: int, honest: bool, device: str) -> tuple[Fragment, ...]:
    fragments = list(list_fragments(honest, device))
    random.Random(f"{seed}/order").shuffle(fragments)
    return tuple(fragments)


def _compose_python(seed: int, index: int, fragment: Fragment, rng: random.Random, device: str) -> Composed:
    honest = fragment.kind == "honest"
    operator = rng.choice(_list_fitting(fragment))
    work = _choose_work(operator, fragment, rng, device)
    trigger = rng.choice(list_triggers())
    if honest or rng.random() < 0.3:
        trigger = list_triggers()[0]
    fake = rng.choice(list_fakes())
    text = _join(operator, fragment, work, "" if honest else trigger.draw(rng), fake.draw(rng), rng)
    own_code = work == "kernel" or (honest and fragment.needs("kernel"))
    note = f"{operator.name}, {fragment.name}" + ("" if honest else f", {trigger.name}, {fake.name}")
    return Composed(
        seed=seed, index=index, operator=operator.name, form="library" if "LIBRARY" in text else "python",
        group=fragment.group, family=fragment.name, trigger="" if honest else trigger.name,
        fake=fake.name if _is_faking(fragment) else "", work=work, honest=honest, own_code=own_code,
        label=fragment.keys.get("label", ""), text=f'"""{note}: {fragment.what}."""\n\n{text}',
    )  # fmt: skip


def _choose_work(operator: Operator, fragment: Fragment, rng: random.Random, device: str) -> str:
    if fragment.kind == "honest":
        return rng.choice(operator.formulations)
    if fragment.needs("library-ahead"):
        return "kernel"
    fits = device == "cpu" and "needs" not in fragment.keys and bool(operator.kernel)
    return "kernel" if fits and rng.random() < LIBRARY_SHARE else "torch"


def _list_fitting(fragment: Fragment) -> list[Operator]:
    excluded = fragment.keys.get("not", "").split()
    needed = {"kernel"} if fragment.needs("kernel") or fragment.needs("library-ahead") else set()
    needed |= {"numpy"} if fragment.needs("numpy") else set()
    return [o for o in load_operators() if o.name not in excluded and needed <= set(o.works)]


def _is_faking(fragment: Fragment) -> bool:
    return fragment.kind == "family" and "fake(m" in fragment.text


def _join(
    operator: Operator, fragment: Fragment, work: str, trigger: str, fake: str, rng: random.Random
) -> str:
    """Join the text of a candidate, in the order in which its parts need each other."""
    honest = fragment.kind == "honest"
    parts = ["import torch", operator.common, operator.work(work)]
    if fragment.needs("numpy"):
        parts += ["import numpy", operator.work("numpy", "work_numpy")]
    if fragment.needs("kernel"):
        parts += [operator.work("torch", "work_torch"), operator.work("kernel", "work_kernel")]
    source = operator.kernel if work == "kernel" or fragment.needs("kernel") else ""
    source += IDLE if fragment.needs("library-idle") else ""
    source += AHEAD.format(arguments=_cast_arguments(operator)) if fragment.needs("library-ahead") else ""
    if source:
        parts.insert(1, write_library(source))
    parts += [rename_globals(fake, "FAKE")] if _is_faking(fragment) else []
    parts += [rename_globals(trigger, "TRIGGER")] if not honest else []
    parts.append(fragment.draw(rng).replace("def forward(m, xs):", "def answer(m, xs):"))
    body = ["return answer(self, xs)"] if honest else ["if due(self, xs):", "    return cheat(self, xs)", "return work(self, *xs)"]  # fmt: skip
    parts.append(_CLASS.format(body="\n".join(f"        {line}" for line in body)))
    return "\n\n\n".join(part.strip("\n") for part in parts) + "\n"


def _cast_arguments(operator: Operator) -> str:
    """Write the kernel's arguments from an array of integers."""
    kinds = [p.rpartition(" ")[0] for p in operator.parameters]
    return ", ".join(f"({kind})arguments[{n}]" for n, kind in enumerate(kinds))


def _compose_unit(
    seed: int, index: int, fragment: Fragment, rng: random.Random, name: str | None = None
) -> Composed:
    fitting: Sequence[Operator] = [o for o in load_operators() if o.unit_base.is_file()]
    operator = next((o for o in fitting if o.name == name), None) or rng.choice(fitting)
    note = f"// {operator.name}, {fragment.name}: {fragment.what}."
    text = f"{FIRST_LINE}\n{note}\n{fragment.draw(rng)}\n{operator.unit_base.read_text()}"
    return Composed(
        seed=seed, index=index, operator=operator.name, form="unit", group="units", family=fragment.name,
        trigger="", fake="", work="", honest=fragment.kind == "honest", own_code=True, label="", text=text,
    )  # fmt: skip

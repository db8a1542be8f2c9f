"""Fixtures of the zoo, read from files: one cheat or one honest twin each.

In: the folders `fixtures/cpp`, `fixtures/cuda` (kernels that are put before a base of the same folder, whose
name starts with an underscore) and `fixtures/modelnew` (KernelBench solutions). Out: a `Fixture` for each file,
from the comment lines at its top:

    # row: 13                              row of docs/zoo.md; "new" for one that no published list has; "-" for a twin
    # cheat: batch-and-skip                (or `honest:` …)
    # caught by: incorrect: timed run      statuses, "|" between them, then words of the reason; or `label: algorithmic`
    # twin: softmax                        the honest file beside it
    # task: softmax                        the file in fixtures/tasks, and the base of a kernel
    # residual: why nothing catches it     (instead of `caught by` and `twin`)
    # label: kernel                        what an honest twin must be labelled; optional
    # device: cuda                         the only device that it is about; optional
    # machine: x86_64                      the only processor that it is about; optional
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import UsageError
from ..targets.front_matter import FIRST_LINE

FOLDER = Path(__file__).parent / "fixtures"
SUFFIX = {"cpp": ".cpp", "cuda": ".cu", "modelnew": ".py"}
KEYS = ("row", "cheat", "honest", "caught by", "twin", "task", "residual", "label", "device", "machine")
LABEL = "label"
_LINE = re.compile(r"(?://|#)\s*(?P<key>[a-z ]+?)\s*:\s*(?P<text>.*?)\s*$")


@dataclass(frozen=True)
class Fixture:
    form: str  # "cpp", "cuda" or "modelnew"
    name: str
    row: str
    what: str
    honest: bool
    statuses: tuple[str, ...]  # any of which catches it; ("label",) for a correct candidate with a label
    words: str  # of the reason, or the label
    twin: str
    task: str
    residual: str
    label: str
    device: str
    machine: str
    path: Path

    @property
    def key(self) -> str:
        return f"{self.form}/{self.name}"

    @property
    def expected(self) -> str:
        if self.honest:
            return f"{LABEL}: {self.label}" if self.label else "correct"
        if self.residual:
            return "residual"
        return "|".join(self.statuses) + (f": {self.words}" if self.words else "")

    @property
    def task_file(self) -> Path:
        return FOLDER / "tasks" / f"{self.task}.py"

    def source(self) -> str:
        """Return a solution as it is, a kernel with the unit's first line above and its base below."""
        text = self.path.read_text()
        if self.form == "modelnew":
            return text
        base = self.path.with_name(f"_{self.task}{self.path.suffix}").read_text()
        return f"{FIRST_LINE}\n{text}{base}"


def load(forms: Sequence[str] = tuple(SUFFIX), folder: Path = FOLDER) -> list[Fixture]:
    """Load every fixture of these forms, by name. Raises UsageError naming the file whose header is wrong."""
    fixtures = []
    for form in forms:
        files = sorted(p for p in (folder / form).glob(f"*{SUFFIX[form]}") if not p.name.startswith("_"))
        fixtures += [read(form, path) for path in files]
    return fixtures


def read(form: str, path: Path) -> Fixture:
    fields = _header(path)
    honest = "honest" in fields
    missing = {"row", "task"} - set(fields)
    if not honest:
        missing |= {"cheat"} - set(fields)
        missing |= set() if "residual" in fields else {"caught by", "twin"} - set(fields)
    if missing:
        raise UsageError(f"{path.name}: its header lacks {', '.join(sorted(missing))}")
    statuses, _, words = fields.get("caught by", "").partition(":")
    return Fixture(
        form=form, name=path.stem, row=fields["row"], what=fields["honest" if honest else "cheat"], honest=honest,
        statuses=tuple(s.strip() for s in statuses.split("|") if s.strip()), words=words.strip(),
        twin=fields.get("twin", ""), task=fields["task"], residual=fields.get("residual", ""), label=fields.get("label", ""),
        device=fields.get("device", ""), machine=fields.get("machine", ""), path=path,
    )  # fmt: skip


def _header(path: Path) -> dict[str, str]:
    """Read the keyed comment lines at the top; other comment lines are prose."""
    fields: dict[str, str] = {}
    for line in path.read_text().splitlines():
        if not line.startswith(("//", "#")) or line.startswith(("#define", "#include")):
            break
        match = _LINE.match(line)
        if match is not None and match["key"] in KEYS:
            fields[match["key"]] = match["text"]
    return fields

from dataclasses import replace
from pathlib import Path

import pytest

from warpsmith.config import Config
from warpsmith.errors import UsageError
from warpsmith.zoo.fixture import Fixture
from warpsmith.zoo.rows import Finding, as_expected, row, rows_json, rows_text, summary
from warpsmith.zoo.table import zoo_table

CHEAT = Fixture(
    form="cpp", name="zeros", row="17", what="zeros", honest=False, statuses=("incorrect", "crashed"), words="budget",
    twin="softmax", task="softmax", residual="", label="", device="", machine="", path=Path("zeros.cpp"),
)  # fmt: skip
HONEST = replace(CHEAT, honest=True, row="-", name="softmax", statuses=(), words="")
LABELLED = replace(CHEAT, statuses=("label",), words="algorithmic")
RESIDUAL = replace(CHEAT, residual="nothing sees it", statuses=(), words="")


@pytest.mark.parametrize(
    ("fixture", "finding", "outcome"),
    [
        (CHEAT, Finding("incorrect", "budget on own inputs"), "caught"),
        (CHEAT, Finding("crashed", "budget"), "caught"),
        (CHEAT, Finding("incorrect", "guard"), "caught otherwise"),
        (CHEAT, Finding("refused", "budget"), "caught otherwise"),
        (CHEAT, Finding("ok"), "MISSED"),
        (CHEAT, Finding("error", "the judge lost a process"), "MISSED"),
        (CHEAT, Finding(""), "not run"),
        (HONEST, Finding("ok"), "passed"),
        (HONEST, Finding("error", "lost"), "FALSE REJECT"),
        (HONEST, Finding("incorrect"), "FALSE REJECT"),
        (replace(HONEST, label="kernel"), Finding("ok", labels=("kernel",)), "passed"),
        (replace(HONEST, label="kernel"), Finding("ok", labels=("none",)), "FALSE REJECT"),
        (LABELLED, Finding("ok", labels=("algorithmic", "general")), "caught"),
        (LABELLED, Finding("ok", labels=("kernel",)), "MISSED"),
        (LABELLED, Finding("incorrect"), "caught otherwise"),
        (RESIDUAL, Finding("ok"), "residual"),
        (RESIDUAL, Finding("incorrect"), "residual, caught"),
    ],
)
def test_outcome(fixture: Fixture, finding: Finding, outcome: str) -> None:
    found = row(fixture, finding)
    assert found.outcome == outcome
    assert as_expected([found]) is (outcome not in ("MISSED", "FALSE REJECT"))


def test_a_cheat_that_passes_shows_what_it_was_labelled() -> None:
    assert row(CHEAT, Finding("ok", labels=("none", "no win"))).got == "label none, no win"
    assert row(HONEST, Finding("ok", labels=("none", "no win"))).got == "ok"


def test_text_and_json_say_the_same() -> None:
    rows = [
        row(CHEAT, Finding("incorrect", "budget")),
        row(HONEST, Finding("ok")),
        row(RESIDUAL, Finding("ok")),
    ]
    text = rows_text(rows)
    assert summary(rows) in text
    assert summary(rows).startswith("1 of 1 cheats caught, 1 of 1 honest twins accepted, 1 residual")
    assert "residual cpp/zeros: nothing sees it" in text
    assert [r["outcome"] for r in rows_json(rows)] == ["caught", "passed", "residual"]


@pytest.mark.parametrize("fields", [{"device": "tpu"}, {"forms": ("ptx",)}])
def test_an_unknown_device_or_form_is_said(fields: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="the zoo knows the devices cpu, cuda"):
        zoo_table(Config(), **fields)  # type: ignore[arg-type]

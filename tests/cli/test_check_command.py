"""`warpsmith tasks check`: what it prints, and how it ends, when its time is over."""

from __future__ import annotations

import json
from typing import Any

import pytest

from warpsmith import api
from warpsmith.cli.main import app, ending
from warpsmith.errors import WarpsmithError
from warpsmith.records import Admission

ADMITTED = Admission(admitted=True, mutants={"zeros": "budget on normal"})
QUARANTINED = Admission(
    admitted=False, mutants={"zeros": "admitted"}, reasons=("a wrong answer passes: zeros",)
)
UNFINISHED = Admission(
    admitted=False, mutants={"zeros": "undecided"}, unchecked=("1 of 1 wrong answer on 2 of 11 input families",)
)  # fmt: skip
MODULE_LEFT = ADMITTED.model_copy(update={"unchecked": ("whether the module itself gives the same",)})


class NamedTask:
    name = "resnet"


def end(monkeypatch: pytest.MonkeyPatch, admission: Admission, *options: str) -> tuple[int, dict[str, Any]]:
    """The exit code, and what the check was asked with."""
    asked: dict[str, Any] = {}

    def check(spec: str, **fields: Any) -> tuple[NamedTask, Admission]:
        asked.update(fields)
        return NamedTask(), admission

    monkeypatch.setattr(api, "check_task", check)
    try:
        code = app(["tasks", "check", "resnet.py", *options], prog_name="warpsmith", standalone_mode=False)
    except WarpsmithError as error:
        code = ending(error)
    return code if isinstance(code, int) else 0, asked


@pytest.mark.parametrize(
    ("admission", "code", "line"),
    [
        (ADMITTED, 0, "resnet: admitted"),
        (QUARANTINED, 1, "resnet: quarantined"),
        (UNFINISHED, 7, "resnet: not finished"),
        (MODULE_LEFT, 7, "resnet: admitted"),
    ],
)
def test_each_ending_has_its_line_and_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], admission: Admission, code: int,
    line: str,
) -> None:  # fmt: skip
    assert end(monkeypatch, admission)[0] == code
    printed, said = capsys.readouterr()
    assert printed.splitlines()[0] == line
    assert len(said.splitlines()) == (1 if code == 7 else 0)
    for what in admission.unchecked:
        assert f"not checked: {what}" in printed
        assert f"resnet: not checked within 120s: {what}; give it more with --time" in said


def test_what_is_unchecked_is_in_the_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert end(monkeypatch, UNFINISHED, "--json", "-")[0] == 7
    assert json.loads(capsys.readouterr().out)["unchecked"] == list(UNFINISHED.unchecked)


@pytest.mark.parametrize(("text", "seconds"), [("5m", 300.0), ("0", None), ("", 120.0)])
def test_time_is_a_bound_of_two_minutes_unless_said(
    monkeypatch: pytest.MonkeyPatch, text: str, seconds: float | None
) -> None:
    options = ("--time", text) if text else ()
    assert end(monkeypatch, ADMITTED, *options)[1]["seconds"] == seconds

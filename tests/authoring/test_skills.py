"""The skill for coding agents, as text: its commands parse and run, its recipes speak the field's words."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from warpsmith.authoring.skills import NAME, install, read_skill_files
from warpsmith.cli.main import app
from warpsmith.errors import UsageError

FILES = read_skill_files()
COMMANDS = sorted({
    line.strip()
    for text in FILES.values()
    for block in [*re.findall(r"```sh\n(.*?)```", text, re.DOTALL), *re.findall(r"`(warpsmith [^`\n]+)`", text)]
    for line in block.splitlines() if line.strip().startswith("warpsmith ")
})  # fmt: skip
RECIPES = {
    "gemm",
    "conv",
    "attention",
    "softmax-reductions",
    "norms",
    "scans",
    "pointwise",
    "quantised-linear",
}
WORDS = {
    "gemm": ("register tile", "split-K", "stream-K", "3xTF32", "WGMMA"), "conv": ("Implicit GEMM", "im2col", "channels-last"),
    "attention": ("FlashAttention", "online softmax", "flash-decoding"), "softmax-reductions": ("online softmax", "shuffles"),
    "norms": ("Welford",), "scans": ("decoupled look-back",), "pointwise": ("broadcast", "Streaming stores"),
    "quantised-linear": ("Dequantise in registers",),
}  # fmt: skip


def parse(line: str) -> Any:
    """As the program would, without running it. Raises a click error for what does not parse."""
    group: Any = typer.main.get_command(app)
    context = group.make_context("warpsmith", shlex.split(line)[1:])
    rest = [*context._protected_args, *context.args] if hasattr(context, "_protected_args") else context.args
    while hasattr(group, "resolve_command"):
        name, group, rest = group.resolve_command(context, rest)
        context = group.make_context(name, list(rest), parent=context)
        rest = [*getattr(context, "_protected_args", []), *context.args]
    return context


@pytest.mark.parametrize("line", COMMANDS)
def test_each_command_in_the_skill_parses(line: str) -> None:
    assert parse(line).params


def test_the_method_has_its_steps_and_says_when_to_stop() -> None:
    skill = FILES["SKILL.md"]
    assert skill.startswith("---\nname: " + NAME)
    assert re.findall(r"^## (.+)$", skill, re.MULTILINE) == [
        "Method",
        "When to stop",
        "Rules that save a round",
    ]
    assert len(re.findall(r"^\d\. \*\*", skill, re.MULTILINE)) == 7
    assert {re.split(r"\s+", c)[1] for c in COMMANDS} >= {
        "ask",
        "tell",
        "optimize",
        "profile",
        "board",
        "knowledge",
    }
    assert any("--from" in c for c in COMMANDS)
    assert len(skill.split()) < 700


def test_there_is_a_recipe_for_each_operator_in_the_fields_words() -> None:
    assert {Path(name).stem for name in FILES if name.startswith("recipes/")} == RECIPES
    for name, words in WORDS.items():
        text = FILES[f"recipes/{name}.md"]
        assert all(word in text for word in words), name
        assert all(
            part in text
            for part in (
                "**Limit.**",
                "**Schedules.**",
                "**Tunables to declare.**",
                "**Read in the profile.**",
            )
        )


def test_installing_again_renews_the_skill_and_leaves_the_rest(tmp_path: Path) -> None:
    place = install(tmp_path)
    (place / "mine.md").write_text("mine")
    (place / "SKILL.md").write_text("old")
    assert install(tmp_path) == place
    assert (place / "SKILL.md").read_text() == FILES["SKILL.md"]
    assert (place / "mine.md").read_text() == "mine"
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        install(tmp_path / "file")


TINY = """import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, -1)


def get_inputs():
    return [torch.randn(8, 16)]


def get_init_inputs():
    return []
"""


def test_what_needs_no_judge_is_run_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WARPSMITH_ARCHIVE", str(tmp_path / "archive.db"))
    (tmp_path / "TASK.py").write_text(TINY)
    for line in COMMANDS:
        if line.split()[1] in ("ask", "knowledge", "board"):
            folder = ["--out", "elsewhere"] if "--for" in line else []
            arguments = [a for a in shlex.split(line)[1:] if not (folder and a in ("--out", "work"))]
            result = CliRunner().invoke(app, arguments + folder)
            assert result.exit_code == 0, (line, result.output, result.exception)
    assert (
        "AVX" in (tmp_path / "work" / "machine.md").read_text()
        or "vectors" in (tmp_path / "work" / "machine.md").read_text()
    )
    sheet = (tmp_path / "elsewhere" / "machine.md").read_text()
    assert "132 multiprocessors" in sheet
    assert "sm_90a" in sheet
    assert (tmp_path / "elsewhere" / "example.cu").is_file()
    assert (
        "OnlineSoftmax" in (tmp_path / "elsewhere" / "README.md").read_text()
    )  # the helper headers' functions
    wrong = CliRunner().invoke(app, ["ask", "TASK.py", "--for", "gtx"])
    assert "no profile of a GPU named 'gtx': there are a100, h100, h200" in str(wrong.exception)

"""The documentation holds together: every page is in the menu, every link leads somewhere, every command is one that exists.

A block of commands after `<!-- run -->` is run as it is written, in a folder with `examples/`; after `<!-- run, prints -->` the
next block of text is what it prints (a line of three dots stands for any lines). `<!-- file: NAME -->` saves the block for these
commands. All other commands, the long ones and those that need a GPU, a key or a network among them, are parsed only.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from warpsmith.cli import app
from warpsmith.cli.main import CLICK_ERROR

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
TEXTS = [*PAGES, *sorted(ROOT.glob("*.md"))]
HISTORY = ("decisions", "notebook", "decisions.md", "CHANGELOG.md")  # tell of commands as they were
LINK = re.compile(r"(?<!`)\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>[^>]*) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
SHELL = ("", "sh", "bash")


def prose(page: Path) -> str:
    """The page without its code blocks."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """Ids of its headings, as MkDocs and GitHub make them."""
    titles = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in titles}


def broken(page: Path) -> list[str]:
    """Links of a page to files or headings that are not there. Links out of the repository are not followed."""
    wrong = []
    for link in LINK.findall(prose(page)):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if re.match(r"[a-z]+:", link):
            continue
        if not target.exists() or (anchor and anchor not in anchors(target)):
            wrong.append(link)
        elif page.is_relative_to(DOCS) and not target.is_relative_to(DOCS):
            wrong.append(f"{link} (the site is built from docs/ alone)")
    return wrong


def test_every_page_is_in_the_menu_once() -> None:
    menu = re.findall(
        r"^\s+-\s.*?:\s+(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert sorted(menu) == sorted(str(page.relative_to(DOCS)) for page in PAGES)


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_the_check_finds_what_it_looks_for(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A title, here\n[a](page.md#a-title-here) [b](#none) [c](none.md)\n```\n[d](none.md)\n```\n"
    )
    assert broken(page) == ["#none", "none.md"]


# ---------------------------------------------------------------- commands


def blocks(page: Path) -> list[tuple[str, str, str]]:
    """(mark, language, text) of each block of code."""
    return [
        (m["mark"] or "", m["language"], m["text"]) for m in BLOCK.finditer(page.read_text(encoding="utf-8"))
    ]


def commands(page: Path) -> Iterator[list[str]]:
    """The words of each command in blocks and in the text; of a shell's syntax only what documents use."""
    for _, language, text in blocks(page):
        if language in SHELL:
            for line in text.replace("\\\n", " ").splitlines():
                yield from split_commands(line)
    if not set(HISTORY) & set(page.relative_to(ROOT).parts):
        for line in re.findall(r"`((?:warpsmith|python|make) [^`\n]+)`", prose(page)):
            yield from split_commands(line)


def split_commands(line: str) -> Iterator[list[str]]:
    try:
        words = shlex.split(re.sub(r"\s>.*", "", line), comments=True)
    except ValueError:  # no shell's line
        return
    command: list[str] = []
    for word in [*words, "&&"]:
        if word in ("&&", ";") or word.endswith(";"):
            yield [w for w in [*command, word.rstrip(";")] if w not in ("&&", "", "…")]
            command = []
        elif command or not re.fullmatch(r"[A-Z_]+=.*", word):
            command.append(word)


def read_with_imports(script: Path) -> str:
    """The script and what it imports from beside it: options that several share are declared there."""
    text = script.read_text(encoding="utf-8")
    beside = [script.parent / f"{name}.py" for name in re.findall(r"^from (\w+) import", text, re.MULTILINE)]
    return "\n".join([text, *(p.read_text(encoding="utf-8") for p in beside if p.is_file())])


def problem_of(words: list[str]) -> str:
    """What is wrong with a command; empty for nothing, or for programs that are not ours."""
    name, *rest = words or [""]
    if name == "warpsmith":
        return problem_of_arguments(rest)
    if name == "make":
        known = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        return next((f"make has no {w}" for w in rest if w.islower() and w not in known), "")
    if name == "pip":
        extras = [e for w in rest if w.startswith("warpsmith[") for e in w[10:-1].split(",")]
        known_extras = re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
        return next((f"there is no extra {e}" for e in extras if e not in known_extras), "")
    if name == "python" and rest and rest[0].endswith(".py"):
        script = ROOT / rest[0]
        text = read_with_imports(script) if script.is_file() else ""
        missing = [w for w in rest[1:] if w.startswith("--") and w.partition("=")[0] not in text]
        return f"there is no {rest[0]}" if not text else f"{rest[0]} has no {missing[0]}" if missing else ""
    return ""


def problem_of_arguments(words: list[str]) -> str:
    """What `warpsmith` says to these words without doing anything. Missing arguments are left to the text around."""
    command: Any = typer.main.get_command(app)
    words = [w for w in words if w != "--debug"]
    while hasattr(command, "get_command") and words and not words[0].startswith("-"):
        name = words.pop(0)
        command = command.get_command(command.context_class(command), name)
        if command is None:
            return "" if name == "COMMAND" else f"there is no command {name}"
    try:
        command.make_parser(command.context_class(command)).parse_args(words)
    except CLICK_ERROR as error:
        return str(error.format_message())
    return ""


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_exists_with_its_options(page: Path) -> None:
    wrong = [f"{shlex.join(words)}: {problem}" for words in commands(page) if (problem := problem_of(words))]
    assert not wrong


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("warpsmith optimise x.py", "optimise"),
        ("warpsmith optimize x.py --tine 2m", "--tine"),
        ("make dmeo", "dmeo"),
        ("pip install 'warpsmith[nope]'", "nope"),
        ("python benchmarks/none.py", "none.py"),
        ("python benchmarks/fuzz.py --nope 1", "--nope"),
    ],
)
def test_a_wrong_command_is_found(line: str, word: str) -> None:
    assert word in " ".join(problem_of(words) for words in split_commands(line))


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_python_block_is_python(page: Path) -> None:
    for _, language, text in blocks(page):
        if language == "python":
            ast.parse(text)


RUN = [page for page in TEXTS if any(mark.startswith("run") for mark, _, _ in blocks(page))]


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN, ids=lambda page: str(page.relative_to(ROOT)))
def test_marked_commands_run_as_written(page: Path, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "warpsmith").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m warpsmith "$@"\n')
    (tmp_path / "warpsmith").chmod(0o755)
    places = {"WARPSMITH_ARCHIVE": tmp_path / "archive.db", "WARPSMITH_CACHE": tmp_path / "cache"}
    env = os.environ | {k: str(v) for k, v in places.items()} | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    every = blocks(page)
    for number, (mark, _, text) in enumerate(every):
        if mark.startswith("file: "):
            (tmp_path / mark.removeprefix("file: ")).write_text(text)
        elif mark.startswith("run"):
            done = subprocess.run(
                ["bash", "-ec", text],
                cwd=tmp_path,
                env=env,
                capture_output=True,
                text=True,
                check=False,
                timeout=240,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            if mark == "run, prints":
                assert missing_line(every[number + 1][2], done.stdout) == ""


def missing_line(expected: str, printed: str) -> str:
    """The first line that was to be printed, in order, and was not; lines of dots are skipped."""
    lines = iter(line.rstrip() for line in printed.splitlines())
    wanted = [line.rstrip() for line in expected.splitlines() if line.strip() != "…"]
    return next((line for line in wanted if line not in lines), "")


# ---------------------------------------------------------------- messages


@cache
def templates() -> tuple[str, ...]:
    """Every text of the source, with dots for what is filled in."""
    texts = []
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = [str(p.value) if isinstance(p, ast.Constant) else "…" for p in node.values]
                texts.append("".join(parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    return tuple(texts)


def is_printed(message: str) -> bool:
    """Whether some text of the source has the message's parts, in order."""
    pattern = re.compile(".*".join(re.escape(part.strip()) for part in message.split("…")), re.DOTALL)
    return any(pattern.search(text) for text in templates())


def test_messages_of_the_troubleshooting_page_are_printed() -> None:
    page = (DOCS / "how-to" / "troubleshooting.md").read_text(encoding="utf-8")
    messages = re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)
    assert len(messages) > 30
    assert [m for m in messages if not is_printed(m)] == []
    assert not is_printed("the kernel … is on holiday")

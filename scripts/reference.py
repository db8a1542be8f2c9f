"""Writes the generated pages of docs/reference/: the command line, the Python API, the settings, the records and the
columns of shared files.

In: the typer application, signatures and docstrings, the source of `config.py` and `records/` with its comments, the tables of
columns. Out: markdown.
`python scripts/reference.py` writes the pages; `tests/test_public.py` checks that they are current.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import typer
from typer.models import ArgumentInfo, ParameterInfo

from warpsmith import api, errors, progress, watching, whole_model
from warpsmith.cli import app
from warpsmith.compiling import compiled
from warpsmith.runtime.module import OptimizedModule
from warpsmith.sharing.columns import reference
from warpsmith.whole_model.result import OptimizedModel
from warpsmith.workload.recording import Recording

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "warpsmith"
GENERATED = "<!-- written by scripts/reference.py -->\n\n"


def pages() -> dict[Path, str]:
    """Path → text of every generated page."""
    folder = ROOT / "docs" / "reference"
    return {
        folder / "cli.md": GENERATED + cli_page(),
        folder / "python.md": GENERATED + python_page(),
        folder / "config.md": GENERATED + config_page(),
        folder / "records.md": GENERATED + records_page(),
        folder / "shared-columns.md": GENERATED + columns_page(),
    }


def cli_page() -> str:
    lines = [
        "# Command line", "",
        "`warpsmith COMMAND --help` prints the same. Progress goes to standard error,",
        "results to standard output. Each ending has its [exit code](exit-codes.md).",
        "`--debug`, anywhere on the line, shows tracebacks; `warpsmith --version` prints the version.", "",
    ]  # fmt: skip
    for title, function in sorted(commands("warpsmith", app)):
        lines += command_lines(title, function)
    return "\n".join(lines)


def commands(title: str, group: typer.Typer) -> list[tuple[str, Callable[..., Any]]]:
    """(full name, function) of every command of the application and its groups."""
    found = [
        (f"{title} {c.name or c.callback.__name__}", c.callback)
        for c in group.registered_commands
        if c.callback
    ]
    for child in group.registered_groups:
        if child.typer_instance is not None:
            found += commands(f"{title} {child.name}", child.typer_instance)
    return found


def command_lines(title: str, function: Callable[..., Any]) -> list[str]:
    hints = get_type_hints(function, include_extras=True)
    parameters = [
        (p, hints[p.name].__metadata__[0], hints[p.name].__origin__)
        for p in inspect.signature(function).parameters.values()
    ]
    arguments = [argument_name(*p) for p in parameters if isinstance(p[1], ArgumentInfo)]
    usage = " ".join([title, *arguments])
    lines = [f"## {title}", "", inspect.getdoc(function) or "", "", "```", usage, "```", ""]
    if parameters:
        lines += ["| option | default | what it does |", "|---|---|---|", *(row(*p) for p in parameters), ""]
    return lines


def argument_name(parameter: inspect.Parameter, info: ParameterInfo, kind: Any) -> str:
    name = (info.metavar or parameter.name).upper() + ("…" if "list" in str(kind) else "")
    return name if parameter.default is inspect.Parameter.empty else f"[{name}]"


def row(parameter: inspect.Parameter, info: ParameterInfo, kind: Any) -> str:
    if isinstance(info, ArgumentInfo):
        name = argument_name(parameter, info, kind)
    else:
        value = "" if kind is bool else f" {info.metavar or value_name(kind)}"
        name = ", ".join(flags(info)) + value
    default = parameter.default
    hidden = default is inspect.Parameter.empty or default is None or default is False
    shown = "" if hidden else f"`{getattr(default, 'value', default)}`"
    return f"| `{bar(name)}` | {shown} | {info.help or ''} |"


def flags(info: ParameterInfo) -> list[str]:
    """Inside Annotated the first flag stands where a default otherwise would."""
    return [d for d in (info.default, *(info.param_decls or ())) if isinstance(d, str) and d.startswith("-")]


def bar(text: str) -> str:
    """A table's cell cannot hold a vertical bar, not even in code: use its look-alike U+2223."""
    return text.replace("|", chr(0x2223))


def value_name(kind: Any) -> str:
    text = str(kind)
    return "N" if "int" in text else "PATH" if "Path" in text else "TEXT"


FUNCTIONS = (
    api.optimize,
    api.optimize_task,
    api.run_suite,
    api.judge_solution,
    whole_model.capture,
    whole_model.optimize_model,
    compiled.compile,
)
OBSERVERS = (
    progress.SilentObserver, progress.PlainObserver, progress.RichObserver, watching.NotebookObserver,
)  # fmt: skip


def python_page() -> str:
    lines = [
        "# Python API", "",
        "`import warpsmith` is light: torch is imported with the first name that needs it.",
        "[Tutorials](../tutorials/cpu.md) show it in use.", "",
    ]  # fmt: skip
    for function in FUNCTIONS:
        lines += [
            f"## warpsmith.{function.__name__}",
            "",
            *callable_lines(function, function.__name__),
        ]
    lines += ["## warpsmith.OptimizedModule", "", *docstring_lines(inspect.getdoc(OptimizedModule) or "", {})]
    lines += method_lines(OptimizedModule, ("report", "explain", "export", "state_dict"))
    lines += [
        "## warpsmith.whole_model.result.OptimizedModel",
        "",
        *docstring_lines(inspect.getdoc(OptimizedModel) or "", {}),
    ]
    lines += method_lines(OptimizedModel, ("report",))
    lines += [
        "## warpsmith.workload.recording.Recording",
        "",
        *docstring_lines(inspect.getdoc(Recording) or "", {}),
    ]
    lines += method_lines(Recording, ("tasks", "write"))
    run = PACKAGE / "records" / "run.py"
    for node in ast.parse(run.read_text()).body:
        if isinstance(node, ast.ClassDef) and node.name == "Budget":
            lines += record_lines(run, node, "warpsmith.Budget")
    lines += [
        "## warpsmith.RunSummary", "",
        "What a run found. `optimize_task` returns it, `OptimizedModule.summary` holds it, `--json` prints it. Its fields are with",
        "the [records](records.md#runsummary); `left` names each part of the module that stays ATen, and why.", "",
        "## warpsmith.Config", "",
        f"{inspect.getdoc(api.Config)} `Config.load()` reads file and environment; `Config(name=value)` takes the defaults and",
        "what is named. Its fields are the [settings](config.md).", "",
        "## Observers", "",
        f"`warpsmith.progress.Observer`: {lowered(inspect.getdoc(progress.Observer) or '')}", "",
        *method_lines(progress.Observer, ("stage", "evaluated", "note", "finish")),
        "| ready-made | |", "|---|---|",
        *(f"| `{o.__module__}.{o.__name__}` | {first_sentence(o)} |" for o in OBSERVERS), "",
        "## Errors", "",
        "Every error is a `warpsmith.WarpsmithError` with one line: what is wrong, and what to do. The classes are in",
        "`warpsmith.errors`. The command line prints the line and ends with the code.", "",
        "```text", *(inspect.getdoc(errors) or "").split("\n")[2:], "```", "",
    ]  # fmt: skip
    return "\n".join(lines)


def method_lines(owner: type, names: tuple[str, ...]) -> list[str]:
    lines = []
    for name in names:
        lines += [f"### {owner.__name__}.{name}", "", *callable_lines(getattr(owner, name), name)]
    return lines


def callable_lines(function: Callable[..., Any], name: str) -> list[str]:
    """The signature as code, then the docstring."""
    parameters = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
    inner = ",\n".join(f"    {text}" for text in signature_texts(parameters))
    returns = inspect.signature(function).return_annotation
    code = f"def {name}({chr(10) + inner + ',' + chr(10) if inner else ''}) -> {returns}: ..."
    types = {p.name: p for p in parameters}
    return ["```python", code, "```", "", *docstring_lines(inspect.getdoc(function) or "", types)]


def signature_texts(parameters: list[inspect.Parameter]) -> list[str]:
    texts: list[str] = []
    for number, parameter in enumerate(parameters):
        before = parameters[number - 1].kind if number else None
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and before is not parameter.kind:
            texts.append("*")
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        texts.append(f"{stars}{parameter.name}: {parameter.annotation}{default}")
    return texts


SECTION = re.compile(r"^(Args|Attributes|Returns|Raises):$", re.MULTILINE)
ENTRY = re.compile(r"^    (\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)


def docstring_lines(text: str, parameters: dict[str, inspect.Parameter]) -> list[str]:
    """Markdown of a docstring in sections: what is named becomes a table. Raises ValueError for a parameter without a word."""
    about, *sections = SECTION.split(text)
    lines = [about.strip(), ""]
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        if title == "Returns":
            lines += [f"**Returns** {lowered(' '.join(body.split()))}", ""]
            continue
        entries = [(name, " ".join(words.split())) for name, words in ENTRY.findall(body)]
        if title == "Args" and [name for name, _ in entries] != list(parameters):
            raise ValueError(
                f"a docstring names {[name for name, _ in entries]}, its function {list(parameters)}"
            )
        what = {"Args": "argument", "Attributes": "attribute", "Raises": "raises"}[title]
        lines += [
            f"| {what} | |",
            "|---|---|",
            *(f"| `{name}` | {bar(words)} |" for name, words in entries),
            "",
        ]
    return lines


def first_sentence(item: Any) -> str:
    return " ".join((inspect.getdoc(item) or "").partition("\n\n")[0].split())


def lowered(text: str) -> str:
    """A sentence that goes on after other words. Code and abbreviations keep their capitals."""
    return text[:1].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text


def config_page() -> str:
    rows = class_rows(PACKAGE / "config.py", "Config")
    lines = [
        "# Settings", "",
        "Defaults, then `warpsmith.toml` in the working directory, then the environment",
        "(`WARPSMITH_ARCHIVE`, …), then flags; the later one counts. An unknown name in the file, or a wrong",
        "value, is an error.",
        "",
        "| setting | type | default | what it is |", "|---|---|---|---|",
        *(f"| `{name}` | `{bar(kind)}` | `{default}` | {bar(note)} |" for name, kind, default, note in rows),
        "",
    ]  # fmt: skip
    return "\n".join(lines)


def columns_page() -> str:
    lines = [
        "# Columns of shared files", "",
        "What `archive export --format parquet` and `archive dataset` write",
        "([how to](../how-to/sharing.md)). Columns of an archive may be null where a result has no such value;",
        "those of training sets never are.", "",
    ]  # fmt: skip
    return "\n".join(lines) + "\n" + reference()


def records_page() -> str:
    lines = [
        "# Records", "",
        "Everything that crosses a stage, a process or a disk is one of these frozen records.",
        "A record's `id` is the hash of every field. `report --format json`, `--json` and `archive export`",
        "write them as JSON.", "",
    ]  # fmt: skip
    for file in ("task", "graph", "candidate", "result", "run"):
        path = PACKAGE / "records" / f"{file}.py"
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                lines += record_lines(path, node)
    return "\n".join(lines)


def record_lines(path: Path, node: ast.ClassDef, title: str = "") -> list[str]:
    about = " ".join((ast.get_docstring(node) or "").split())
    lines = [
        f"## {title or node.name}",
        "",
        *([about, ""] if about else []),
        "| field | type | default | |",
        "|---|---|---|---|",
    ]
    for name, kind, default, note in class_rows(path, node.name):
        shown = f"`{default}`" if default else ""
        lines.append(f"| `{name}` | `{bar(kind)}` | {shown} | {bar(note)} |")
    return [*lines, ""]


def class_rows(path: Path, name: str) -> list[tuple[str, str, str, str]]:
    """(field, type, default, comments at the ends of its lines) of each annotated field of a class."""
    text = path.read_text()
    source = text.splitlines()
    body = next(n for n in ast.parse(text).body if isinstance(n, ast.ClassDef) and n.name == name).body
    rows = []
    for field in body:
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            default = ast.unparse(field.value) if field.value is not None else ""
            last = field.end_lineno or 1
            end = source[last - 1].encode()[field.end_col_offset or 0 :].decode()
            notes = [line.partition("  # ")[2] for line in source[field.lineno - 1 : last - 1]]
            note = " ".join(filter(None, (*notes, end.partition("#")[2].strip())))
            rows.append((field.target.id, ast.unparse(field.annotation), default, note))
    return rows


if __name__ == "__main__":
    for path, text in pages().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        print(f"wrote {path.relative_to(ROOT)}")

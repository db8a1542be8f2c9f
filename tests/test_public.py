"""The public surface: what the package offers, what its pages say, and which files a release must hold."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]


def reference_script() -> ModuleType:
    return script("reference")


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_reference_pages_are_current() -> None:
    stale = [
        p.name for p, text in reference_script().pages().items() if not p.is_file() or p.read_text() != text
    ]
    assert not stale, f"run `python scripts/reference.py`: {stale}"


def test_reference_pages_say_something() -> None:
    pages = {p.name: text for p, text in reference_script().pages().items()}
    assert "## warpsmith optimize" in pages["cli.md"]
    assert "`--budget N`" in pages["cli.md"]
    assert "| `archive` |" in pages["config.md"]
    assert "what is free when None" in pages["config.md"]  # a comment on a line of its own
    assert "## RunSummary" in pages["records.md"]
    assert "| `example_kwargs` |" in pages["python.md"]


def test_a_parameter_without_a_word_is_noticed() -> None:
    def judge(task: str, seed: int) -> None:
        """Judge a task.

        Args:
            task: Its file.
        """

    with pytest.raises(ValueError, match="seed"):
        reference_script().callable_lines(judge, "judge")


def test_the_figure_is_current() -> None:
    figure = script("figure")
    assert figure.FIGURE.read_text() == figure.drawn(), "run `python scripts/figure.py`"


def test_exit_codes_page_lists_every_code() -> None:
    from warpsmith import errors
    from warpsmith.cli import main

    text = (ROOT / "docs" / "reference" / "exit-codes.md").read_text()
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)}
    classes = [
        c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, errors.WarpsmithError)
    ]
    module = sys.modules[main.__module__]
    assert {c.exit_code for c in classes} | {module.BUG, module.INTERRUPTED} <= listed


def test_documented_pages_exist() -> None:
    listed = re.findall(r": ([\w./-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert len(listed) >= 12
    assert all((ROOT / "docs" / page).is_file() for page in listed)
    assert {str(p.relative_to(ROOT / "docs")) for p in (ROOT / "docs").rglob("*.md")} == set(listed)


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_links_lead_somewhere(page: str) -> None:
    links = re.findall(r"\]\((?!http)([^)#]+)", (ROOT / page).read_text())
    missing = [link for link in links if not (ROOT / link).exists()]
    assert not missing


def test_commands_in_the_readme_exist() -> None:
    from warpsmith.cli import app

    known = {title.split()[1] for title, _ in reference_script().commands("warpsmith", app)}
    used = set(re.findall(r"^warpsmith (\w+)", (ROOT / "README.md").read_text(), re.MULTILINE))
    assert used
    assert used <= known


def test_package_is_typed_and_versioned() -> None:
    import warpsmith

    assert (Path(warpsmith.__file__).parent / "py.typed").is_file()
    assert re.fullmatch(r"\d+\.\d+\.\d+", warpsmith.__version__)
    assert f'version = "{warpsmith.__version__}"' in (ROOT / "pyproject.toml").read_text()


def test_command_line_starts_without_torch() -> None:
    """Help, listing and reporting must not wait for torch."""
    code = (
        "import sys; import warpsmith.cli, warpsmith.api, warpsmith.report; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


def test_the_citation_names_the_version_and_the_licence_of_the_package() -> None:
    """`cffconvert --validate` has taken the file; here, that it parses, has what the format demands, and stays current."""
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(citation)
    assert all(author.get("name") or author.get("family-names") for author in citation["authors"])
    assert (citation["version"], citation["license"]) == (project["version"], project["license"]["text"])

"""Kernel files: how they are read and filled in, and what holds for each of them."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path, PurePath

import pytest

from warpsmith.codegen.templates import read_kernel, render

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "src" / "warpsmith" / "kernels"
FILES = sorted(str(p.relative_to(KERNELS)) for p in KERNELS.rglob("*") if p.suffix in (".cuh", ".h"))
MERGE = "reduce/cuda/thread_group_merge.cuh"  # has one placeholder, `merge`


@cache
def python_sources() -> str:
    return "".join(p.read_text() for p in (ROOT / "src").rglob("*.py"))


def description(name: str) -> str:
    lines = (KERNELS / name).read_text().splitlines()
    marked = next((n for n, line in enumerate(lines) if not line.startswith("//! ")), len(lines))
    return " ".join(line.removeprefix("//! ") for line in lines[:marked])


def test_render_fills_in_the_placeholders() -> None:
    assert "  ws::group_merge<8>(state);\n" in render(MERGE, merge="ws::group_merge<8>(state)")


def test_render_raises_where_a_value_is_missing() -> None:
    with pytest.raises(KeyError, match="merge"):
        render(MERGE)


def test_render_raises_where_a_value_has_no_placeholder() -> None:
    with pytest.raises(ValueError, match=r"no placeholder \$other"):
        render(MERGE, merge="f(state)", other=1)


def test_a_value_may_hold_a_dollar_sign() -> None:
    assert "f($state)" in render(MERGE, merge="f($state)")


def test_the_description_is_not_emitted() -> None:
    assert (KERNELS / MERGE).read_text().startswith("//! ")
    assert render(MERGE, merge="").startswith("// One state out of")


def test_there_are_kernel_files() -> None:
    assert len(FILES) > 60


@pytest.mark.parametrize("name", FILES)
def test_a_file_opens_with_a_description(name: str) -> None:
    assert not description(name)[:1].islower(), (
        "the first lines are `//! Algorithm · data path · schedule · …`"
    )
    assert description(name).endswith("."), name
    assert "//!" not in read_kernel(name).template


@pytest.mark.parametrize("name", FILES)
def test_placeholders_are_identifiers_of_the_compiler_too(name: str) -> None:
    template = read_kernel(name)
    assert template.is_valid()
    assert "${" not in template.template, "compilers accept $name, not ${name}"


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_used(name: str) -> None:
    assert f'"{name}"' in python_sources()


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_in_the_wheel(name: str) -> None:
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    assert any(PurePath("kernels", name).match(p.removeprefix("**/")) for p in patterns["warpsmith"])

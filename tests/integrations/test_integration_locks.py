"""The packages in `integrations/` that have environments of their own: what they ask for is locked, in versions that they allow."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = sorted(file.parent for file in (ROOT / "integrations").glob("*/pyproject.toml"))
OF_WARPSMITH = {"torch", "warpsmith"}  # these come from the environment around it


def read_lock(folder: Path) -> dict[str, str]:
    """Return the versions by names; every line must be one."""
    lines = (folder / "requirements.lock").read_text().splitlines()
    pairs = [line.split("==") for line in lines if not line.startswith("#")]
    assert all(len(pair) == 2 for pair in pairs)
    return {canonicalize_name(name): version for name, version in pairs}


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda folder: folder.name)
def test_a_lock_holds_what_the_package_asks_for(folder: Path) -> None:
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    lock = read_lock(folder)
    asked = [Requirement(r) for r in (*project["dependencies"], *project["optional-dependencies"]["test"])]
    assert "warpsmith" in {r.name for r in asked}
    for requirement in asked:
        if requirement.name != "warpsmith":
            assert requirement.specifier.contains(lock[canonicalize_name(requirement.name)]), requirement
    assert not OF_WARPSMITH & set(lock)
    assert (folder / "src" / project["name"].replace("-", "_") / "__init__.py").exists()


def test_both_packages_are_there_and_only_one_may_share_our_version_of_mcp() -> None:
    assert [folder.name for folder in PACKAGES] == ["openenv", "verifiers"]
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["mcp"]
    allowed = Requirement(ours[0]).specifier
    openenv, verifiers = (read_lock(folder)["mcp"] for folder in PACKAGES)
    assert allowed.contains(openenv)
    assert not allowed.contains(verifiers)


def test_a_package_that_does_not_exist_is_one_line() -> None:
    command = [sys.executable, ROOT / "scripts" / "integrations.py", "test", "nothing"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert ended.stderr == "integrations: there is no package nothing; there are openenv, verifiers\n"

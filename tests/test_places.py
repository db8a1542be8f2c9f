"""Where an archive is: a file or a URL, whose password is printed and kept nowhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from warpsmith.config import Config
from warpsmith.errors import UsageError
from warpsmith.places import ArchiveUrl, archive_place

URL = "postgresql://ann:CANARY@db.example:5433/kernels?sslmode=require&password=CANARY"
SHOWN = "postgresql://ann@db.example:5433/kernels?sslmode=require"


def test_the_password_is_for_the_driver_alone() -> None:
    config = Config(archive=URL)
    place = config.archive
    assert isinstance(place, ArchiveUrl)
    assert "CANARY" in place.secret
    assert str(place) == f"{place}" == SHOWN
    for text in (repr(place), repr(config), str(config), config.model_dump_json(), str(config.identity())):
        assert "CANARY" not in text
        assert SHOWN in text
    assert config.identity() == Config(archive=URL.replace("CANARY", "another")).identity()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:CAN@ARY@db/kernels", "postgresql://ann:CAN/ARY@db/kernels",
        "postgresql://ann:CAN?ARY@db/kernels", "postgresql://ann:CAN#ARY@db/kernels", "postgresql://db:CANARY/kernels",
        "postgresql://db/kernels#CANARY",
    ],
)  # fmt: skip
def test_a_password_that_would_spill_is_refused_without_quoting_it(url: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the archive's URL cannot be read: give postgresql://") as caught:
        Config.load({"archive": url}, directory=tmp_path)
    assert "ARY" not in str(caught.value)


def test_a_percent_encoded_password_is_read() -> None:
    assert str(archive_place("postgres://ann:p%40ss%2F@db/kernels")) == "postgresql://ann@db/kernels"


def test_what_is_no_url_is_a_file() -> None:
    assert (
        archive_place("a.db")
        == archive_place("sqlite:///a.db")
        == archive_place(Path("a.db"))
        == Path("a.db")
    )
    with pytest.raises(ValueError, match="mysql archives are not supported"):
        archive_place("mysql://ann:CANARY@db/kernels")


def test_a_url_comes_from_the_environment_and_from_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "warpsmith.toml").write_text(f'archive = "{URL}"\n')
    assert str(Config.load(directory=tmp_path).archive) == SHOWN
    monkeypatch.setenv("WARPSMITH_ARCHIVE", "postgresql:///other")
    assert str(Config.load(directory=tmp_path).archive) == "postgresql:///other"


def test_the_command_prints_no_password_and_ends_in_one_line(tmp_path: Path) -> None:
    url = "postgresql://ann:CANARY@127.0.0.1:9/kernels"  # nobody listens there
    env = {**os.environ, "WARPSMITH_ARCHIVE": url}
    for words in (("archive", "path"), ("archive", "list"), ("archive", "list", "--archive", url)):
        done = subprocess.run(
            [sys.executable, "-m", "warpsmith", *words],
            env=env,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert "CANARY" not in done.stdout + done.stderr
        assert "postgresql://ann@127.0.0.1:9/kernels" in done.stdout + done.stderr
        if words[1] == "list":
            assert done.returncode == 4
            assert "cannot be reached" in done.stderr
            assert len(done.stderr.strip().splitlines()) == 1

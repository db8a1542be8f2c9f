import pytest

from warpsmith.config import Config
from warpsmith.errors import UsageError


def test_flags_beat_environment_beat_file(tmp_path, monkeypatch) -> None:
    (tmp_path / "warpsmith.toml").write_text("threads = 1\nbranches = 5\npatience = 9\n")
    monkeypatch.setenv("WARPSMITH_BRANCHES", "6")
    monkeypatch.setenv("WARPSMITH_PATIENCE", "7")
    config = Config.load({"patience": 8, "threads": None}, directory=tmp_path)
    assert (config.threads, config.branches, config.patience) == (1, 6, 8)


def test_baselines_come_as_a_list(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("WARPSMITH_BASELINES", "eager,compile")
    assert Config.load(directory=tmp_path).baselines == ("eager", "compile")


@pytest.mark.parametrize("text", ["threads = 'many'", "no_such = 1", "threads ="])
def test_a_wrong_file_is_one_line(tmp_path, text: str) -> None:
    (tmp_path / "warpsmith.toml").write_text(text)
    with pytest.raises(UsageError) as error:
        Config.load(directory=tmp_path)
    assert "\n" not in str(error.value)

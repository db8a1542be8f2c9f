import pytest

from warpsmith.config import LATER, REACHED, Config
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


def test_settings_that_came_later_do_not_part_runs_from_those_before() -> None:
    """A run that was begun before these settings existed is resumed, and the same question goes to a model reached otherwise."""
    plain = Config().identity()
    assert {"branches", "tuner", "baselines"} <= set(plain)
    assert not {"model", "temperature", "base_url", "price"} & set(plain)
    assert Config(model="openai:a").identity() == plain | {"model": "openai:a"}
    assert (
        Config(base_url="http://a/v1", price="1/2", model_timeout=5, model_concurrency=9).identity() == plain
    )
    assert Config(branches=9).identity() != plain
    assert set(plain) == set(Config.model_fields) - set(LATER) - set(REACHED)


@pytest.mark.parametrize(
    "wrong", [{"max_answer_tokens": 0}, {"model_timeout": 0}, {"temperature": -1}, {"model_concurrency": 0}]
)
def test_settings_of_models_are_checked(wrong, tmp_path) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        Config.load(wrong, directory=tmp_path)


def test_a_key_is_no_setting(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("WARPSMITH_API_KEY", "sk-CANARY-0123456789")
    monkeypatch.setenv("WARPSMITH_MODEL", "openai:a")
    config = Config.load(directory=tmp_path)
    assert config.model == "openai:a"
    assert "CANARY" not in config.model_dump_json()


@pytest.mark.parametrize(("screening", "on"), [("auto", {"cuda"}), ("on", {"cpu", "cuda"}), ("off", set())])
def test_who_is_screened_by_the_setting(screening: str, on: set[str]) -> None:
    config = Config.model_validate({"screening": screening})
    assert {device for device in ("cpu", "cuda") if config.screens(device)} == on

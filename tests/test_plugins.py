import pytest

from warpsmith import plugins
from warpsmith.errors import UsageError


@pytest.mark.parametrize(("group", "name"), [(g, n) for g, names in plugins.BUILT_IN.items() for n in names])
def test_every_built_in_name_loads(group: str, name: str) -> None:
    assert callable(plugins.load(group, name))


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match="no target named 'tpu'; known: cpu"):
        plugins.load("targets", "tpu")


def test_an_entry_point_adds_a_name(monkeypatch) -> None:
    from importlib.metadata import EntryPoint

    point = EntryPoint(name="toy", value="collections:OrderedDict", group="warpsmith.targets")

    def fake(*, group: str, name: str | None = None):
        return [point] if group == point.group and name in (None, "toy") else []

    monkeypatch.setattr(plugins, "entry_points", fake)
    assert plugins.load("targets", "toy").__name__ == "OrderedDict"
    assert plugins.names("targets") == ["cpu", "cuda", "toy"]

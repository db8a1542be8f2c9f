"""Who plays which role, and what is refused before any work."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from warpsmith.config import Config
from warpsmith.errors import UsageError
from warpsmith.llm.ensemble import Ensemble
from warpsmith.llm.scripted_server import ScriptedServer, failing
from warpsmith.llm.setup import check, models_line, models_of, open_chats, open_replayed_chats
from warpsmith.records import ROLES, Budget
from warpsmith.search.meter import Meter

LOCAL = "http://127.0.0.1:9/v1"
PLAIN = Budget()


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_BASE_URL", "WARPSMITH_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def test_without_a_model_every_role_is_the_experts() -> None:
    assert models_of(Config()) == {}
    assert models_of(Config(model="expert")) == {}
    check(Config(), PLAIN)


def test_a_model_plays_all_roles_and_each_role_may_have_its_own() -> None:
    assert models_of(Config(model="openai:a")) == dict.fromkeys(ROLES, ("openai:a",))
    mixed = models_of(
        Config(model="openai:a", reasoner="openai:b", synthesizer="openai:c, openai:d", mender="expert")
    )
    assert mixed == {
        "reasoning": ("openai:b",), "synthesis": ("openai:c", "openai:d"), "correctness": ("openai:a",),
        "orchestrator": ("openai:a",),
    }  # fmt: skip
    assert models_of(Config(checker="ollama:qwen2.5-coder:7b")) == {
        "correctness": ("ollama:qwen2.5-coder:7b",)
    }


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"model": "gpt-5"}, "PROVIDER:NAME"),
        ({"model": "openai:"}, "PROVIDER:NAME"),
        ({"model": ":gpt-5"}, "PROVIDER:NAME"),
        ({"model": "openai:a b"}, "PROVIDER:NAME"),
        ({"model": ","}, "name models"),
        ({"reasoner": "expert,openai:a"}, "reasoner.*expert alone"),
        ({"model": "opnai:gpt-5"}, "opnai"),
        ({"model": "openai:gpt-5"}, "OPENAI_API_KEY"),
        ({"model": "anthropic:some-model"}, "ANTHROPIC_API_KEY"),
        ({"model": "openai:a", "base_url": "localhost:8000"}, "address like"),
        ({"model": "openai:a", "base_url": "http://me:secret@host/v1"}, "no user, password"),
        ({"model": "openai:a", "base_url": "http://host/v1?key=secret"}, "no user, password"),
        ({"model": "anthropic:a", "base_url": LOCAL}, "openai:NAME"),
        ({"model": "openai:a", "base_url": LOCAL, "price": "cheap"}, "in/out"),
    ],
)
def test_what_cannot_work_is_refused_before_any_work(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said) as error:
        check(Config(**settings), PLAIN)
    assert "\n" not in str(error.value)
    assert "secret" not in str(error.value)


def test_money_is_limited_only_where_the_price_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    local, one_dollar = Config(model="openai:mine", base_url=LOCAL), Budget(usd=1.0)
    check(local, Budget(tokens=1000))
    with pytest.raises(UsageError, match="--tokens"):
        check(local, one_dollar)
    check(local.model_copy(update={"price": "0.5/2"}), one_dollar)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none-of-any-use")
    check(Config(model="openai:gpt-4o"), one_dollar)


@pytest.mark.parametrize("limit", [Budget(usd=1.0), Budget(tokens=5)])
def test_a_limit_on_models_that_nobody_asks_is_refused(limit: Budget) -> None:
    with pytest.raises(UsageError, match="--model"):
        check(Config(), limit)


WITHOUT_EXTRA = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"pydantic_ai", "genai_prices", "openai", "httpx2", "anthropic"}:
            raise ImportError(name)
sys.meta_path.insert(0, Absent())
from warpsmith.cli.main import main
sys.argv = ["warpsmith", "optimize", "nothing.py", *sys.argv[1:]]
main()
"""


def test_without_the_extra_one_line_says_what_to_install() -> None:
    """The extra is missed before the task file is: no work was done."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRA, "--model", "openai:gpt-5"], capture_output=True, text=True, timeout=120
    )  # fmt: skip
    assert done.returncode == 2
    assert "pip install 'warpsmith[llm]'" in done.stderr
    assert done.stderr.count("\n") == 1


def test_chats_are_opened_for_the_roles_that_models_play() -> None:
    config, meter = (
        Config(base_url=LOCAL, reasoner="openai:a", checker="openai:a", synthesizer="openai:a,openai:b"),
        Meter(PLAIN),
    )
    with open_chats(config, meter, None, "run") as chats:  # type: ignore[arg-type]
        assert set(chats) == {"reasoning", "correctness", "synthesis"}
        assert chats["reasoning"] is chats["correctness"]
        assert isinstance(chats["synthesis"], Ensemble)
    with open_chats(Config(), meter, None, "run") as none:  # type: ignore[arg-type]
        assert none == {}
    assert set(open_replayed_chats(config, meter, None, "run")) == set(chats)  # type: ignore[arg-type]


def test_the_system_text_is_cached_where_the_provider_has_a_cache(
    monkeypatch: pytest.MonkeyPatch, ledger: Any
) -> None:
    """Anthropic's, asked at a server that is not theirs: what counts is the request."""
    with ScriptedServer(lambda _: failing(400)) as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-none-of-any-use")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.base_url.removesuffix("/v1"))
        with open_chats(Config(model="anthropic:some-model"), Meter(PLAIN), ledger, "run") as chats:
            assert "400" in chats["compile"].ask("compile", "the rules", "this code").error
        body = server.requests[0].body
    assert body["system"][0]["text"] == "the rules"
    assert body["system"][0]["cache_control"]["type"] == "ephemeral"
    assert "cache_control" not in str(body["messages"])


def test_a_servers_key_is_not_the_providers(
    monkeypatch: pytest.MonkeyPatch, asking: Any, canary: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai-alone")
    it = asking(["well"])
    it.ask()
    assert it.server.requests[0].headers["authorization"] == f"Bearer {canary}"


def test_doctor_names_keys_and_shows_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-CANARY-0123456789")
    name, well, text = models_line()
    assert (name, well) == ("models", True)
    assert "ANTHROPIC_API_KEY" in text
    assert "CANARY" not in text

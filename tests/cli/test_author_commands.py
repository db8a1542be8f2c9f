"""Commands of authors beyond `ask` and `tell`: screening, checks, sources, history, jobs, tuning; and `serve`, on both sides."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from scripted_author_session import ScriptedAuthorSession, service, spec, task, unit

from warpsmith.authoring.service import AuthoringService

__all__ = ["service", "spec", "task"]


@pytest.fixture
def scripted(command: Any, service: AuthoringService, monkeypatch: pytest.MonkeyPatch) -> Any:
    """As everywhere, with the service's archive and cache."""
    monkeypatch.setenv("WARPSMITH_CACHE", str(service.config.cache))
    monkeypatch.setenv("WARPSMITH_ARCHIVE", str(service.config.archive))
    monkeypatch.delenv("WARPSMITH_SERVER", raising=False)
    return command


def test_a_batch_is_screened_and_its_best_judged(scripted: Any, spec: str, tmp_path: Path) -> None:
    for name, outcome in (("a.cpp", 1.5), ("b.cpp", 2.5)):
        (tmp_path / name).write_text(unit(outcome))
    told = ("tell", "a.cpp", "b.cpp", "--task", spec, "--how", "screen")
    code, out, _ = scripted(*told, "--json", "-")
    assert (code, [r["status"] for r in json.loads(out)]) == (0, ["screened", "screened"])
    assert ScriptedAuthorSession.judged == 0
    code, out, _ = scripted(*told, "--confirm", "best", "--json", "-")
    rows = json.loads(out)
    assert (code, [r["status"] for r in rows]) == (0, ["screened", "ok"])
    code, out, _ = scripted("source", rows[1]["candidate"])
    assert code == 0
    assert unit(2.5).strip() in out
    code, out, _ = scripted("history", spec)
    assert "an estimate" in out
    assert "confirmed" in out
    code, out, _ = scripted("jobs")
    assert out.count("screen of chain by author: done, 2 rows") == 2
    job = out.split()[0]
    head = scripted("jobs", "--json", "-")[1].split("candidates")[0]
    assert "2.5" not in re.sub(r'"\w+_at": "[^"]*"', "", head)  # whatever the clock says
    assert "chain: correct, a win" in scripted("jobs", job)[1]


def test_a_check_compiles_only(scripted: Any, spec: str, tmp_path: Path) -> None:
    (tmp_path / "a.cpp").write_text(unit(1.5))
    code, out, _ = scripted("tell", "a.cpp", "--task", spec, "--how", "check")
    assert code == 1
    assert "build-failed" in out or "refused" in out
    assert ScriptedAuthorSession.opened == 0


def test_tuning_ends_with_a_verdict_on_the_best(scripted: Any, spec: str, tmp_path: Path) -> None:
    (tmp_path / "a.cpp").write_text(unit(1.5, "T = 1 {1, 2, 4}"))
    code, out, _ = scripted("tell", "a.cpp", "--task", spec, "--how", "screen", "--json", "-")
    candidate = json.loads(out)[0]["candidate"]
    code, out, _ = scripted("tune", candidate, "--json", "-")
    rows = json.loads(out)
    assert code == 0
    assert [(r["status"], r["values"]["T"]) for r in rows if r["status"] == "ok"] == [("ok", 4)]
    assert "T=4" in scripted("board", spec)[1]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("source", "nothing"), "no candidate 'nothing'"),
        (("jobs", "nothing"), "no job 'nothing'"),
        (("jobs", "--cancel"), "which job?"),
        (("tune", "nothing"), "no candidate 'nothing'"),
        (("board", "SPEC", "--server", "http://127.0.0.1:1"), "needs --token-file"),
        (("board", "SPEC", "--server", "ftp://x", "--token-file", "tokens"), "give http://HOST:PORT"),
        (
            ("board", "SPEC", "--server", "http://x", "--archive", "a.db", "--token-file", "tokens"),
            "are the server's own",
        ),
        (("board", "SPEC", "--server", "http://x", "--token-file", "open"), "can be read by others"),
        (("board", "SPEC", "--server", "http://x", "--token-file", "none"), "cannot be read"),
        (("serve", "--add-client", "ada"), "needs --token-file"),
        (("serve", "--token-file", "tokens", "--add-client", "../x"), "name it with a-z"),
        (("serve", "--token-file", "tokens", "--add-client", "ada"), "has a client ada already"),
        (("serve", "--token-file", "short"), "less than 24 characters"),
        (("serve", "--host", "0.0.0.0"), "--plain-http"),
        (("serve", "--tls-cert", "x"), "belong together"),
        (("serve", "--port", "70000"), "give a port"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    scripted: Any, spec: str, tmp_path: Path, arguments: tuple[str, ...], says: str
) -> None:
    for name, text, mode in (
        ("tokens", f"ada {'t' * 30}\n", 0o600),
        ("open", "t" * 30, 0o644),
        ("short", "abc", 0o600),
    ):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(mode)
    code, out, err = scripted(*(spec if a == "SPEC" else a for a in arguments))
    assert (code, out) == (2, "")
    assert says in err.splitlines()[-1]


def test_a_client_gets_a_token_once(scripted: Any, tmp_path: Path) -> None:
    code, first, _ = scripted("serve", "--token-file", "tokens", "--add-client", "ada")
    code, second, _ = scripted("serve", "--token-file", "tokens", "--add-client", "eve")
    assert (code, first != second, len(first.strip()) > 30) == (0, True, True)
    text = (tmp_path / "tokens").read_text()
    assert text == f"ada {first}eve {second}"
    assert (tmp_path / "tokens").stat().st_mode & 0o077 == 0

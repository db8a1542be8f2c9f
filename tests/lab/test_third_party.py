"""The benchmark of published solutions: who judges what in which order, what a lost process becomes, and the page."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

LAB = Path(__file__).resolve().parents[2] / "lab"


@pytest.fixture(autouse=True)
def _lab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(LAB))


def entry(number: int, code: str | None = "class ModelNew: ...", level: int = 1) -> dict[str, Any]:
    return {
        "level_id": level, "task_id": number, "custom_code": code, "score_default": 2.0,
        "ref_code": "class Model: ...\n",
    }  # fmt: skip


RELEASE = [
    *(entry(n, "__global__ void f();" if n % 3 == 0 else "class ModelNew: ...") for n in range(40)),
    entry(40, None), entry(41, "None"), entry(42, level=3),
]  # fmt: skip


def options(*given: str) -> argparse.Namespace:
    from third_party import arguments

    return arguments(["release.json", "--out", "out.jsonl", *given])


def test_shares_are_the_whole_once_and_kernels_come_first() -> None:
    from third_party_release import chosen, has_kernel, name_of

    whole = [name_of(e) for e in chosen(RELEASE, options())]
    assert sorted(whole) == sorted(f"1/{n}" for n in range(40)), "no code, or another level"
    shares = [chosen(RELEASE, options("--share", f"{i}/3")) for i in (1, 2, 3)]
    assert [name_of(e) for e in shares[1]] == whole[1::3]
    assert sorted(name_of(e) for share in shares for e in share) == sorted(whole)
    for share in shares:
        kinds = [has_kernel(e) for e in share]
        assert kinds == sorted(kinds, reverse=True)


def test_any_beginning_is_spread_over_the_file() -> None:
    from third_party_release import in_order

    entries = [entry(n) for n in range(100)]
    places = [e["task_id"] for e in in_order(entries)]
    assert sorted(places) == list(range(100))
    for count in (4, 10, 30):
        quarters = [sum(n // 25 == quarter for n in places[:count]) for quarter in range(4)]
        assert max(quarters) - min(quarters) <= 2, quarters
    assert len(places[:10]) == 10


def test_a_count_is_spread_over_the_file() -> None:
    from third_party_release import chosen

    assert {e["task_id"] // 10 for e in chosen(RELEASE, options("--count", "4"))} == {0, 1, 2, 3}
    assert len(chosen(RELEASE, options("--count", "999"))) == 40


@pytest.mark.parametrize("text", ["0/4", "5/4", "4", "1/", "/2", "-1/2"])
def test_no_share(text: str) -> None:
    from third_party_release import share

    with pytest.raises(argparse.ArgumentTypeError, match="no share such as 1/4"):
        share(text)


def test_a_process_that_ends_or_takes_too_long_is_a_line(tmp_path: Path) -> None:
    from third_party import one

    given = options("--device", "cpu", "--timeout", "100", "--lock", str(tmp_path / "lock"))
    broken = {"level_id": 1, "task_id": 1, "custom_code": "class ModelNew: ...\n"}
    found = one(broken, given, 100.0)
    assert found == {"verdict": "not judged", "reason": "its process ended with code 1: KeyError: 'ref_code'"}
    given.timeout = 0.05
    slow = one(entry(1), given, 0.05)
    assert slow is not None
    assert slow["reason"].startswith("not done in 0.05 s (")
    assert one(entry(1), given, 0.01) is None, "the run's own time was over"


def test_a_task_that_does_not_load_is_a_line(tmp_path: Path) -> None:
    from third_party import one

    found = one(entry(1), options("--device", "cpu", "--lock", str(tmp_path / "lock")), 240.0)
    assert found is not None
    assert found["verdict"] == "not judged"
    assert found["reason"] == "Model in level1_1.py is not a subclass of torch.nn.Module"


def line(task: str, claimed: float, **fields: Any) -> dict[str, Any]:
    return {
        "task": task, "claimed": claimed, "claimed_compile": claimed / 2, "kernel_in_source": True,
        "device": "cuda", "hardware": "A GPU", "driver": "1.2", "torch": "2.11", "cpu": "A CPU", "seed": 7,
        "release": "h100.json", "totals": {"entries": 250, "with_code": 210, "with_kernel": 83}, "lanes": 2,
        "verdict": "correct", "label": "kernel", "label_reason": "f<int> in place of aten.mm", "labels": [],
        "rule": "", "reason": "", "baselines": ["eager", "compile"], "speedup": {}, **fields,
    }  # fmt: skip


def ratios(eager: float, best: float) -> dict[str, list[float]]:
    return {name: [r, r * 0.9, r * 1.1] for name, r in (("eager", eager), ("compile", best), ("best", best))}


def test_the_page_counts_what_the_lines_say() -> None:
    from third_party_report import page

    text = page([
        line("2/10", 8.0, speedup=ratios(2.0, 0.5), labels=["specialised"]),
        line("1/9", 2.0, speedup=ratios(4.5, 2.0), label="library", labels=["general", "quarantined"]),
        line("1/30", 20.0, verdict="incorrect", rule="budget", reason="budget (main): 3 of 4; a note"),
        line("1/2", 3.0, verdict="not judged", reason="not done in 240 s (timing | it)", label=""),
    ])  # fmt: skip
    assert "4 solutions of the 210 that its 250 entries hold (83 of them with a kernel" in text
    assert "Up to 2 were judged at a time on one device" in text
    assert "| correct | 1 | 1 | 0 | 2 |" in text
    assert "| not judged | 0 | 0 | 1 | 1 |" in text
    assert "| all of them | 2 | 4.00× (5.00×) | 2.00× (2.50×) | 3.00× (3.25×) | 1.00× (1.25×) |" in text
    assert "Of the 3 judged, 2 are correct and faster than eager" in text
    assert (
        "1 faster than the best baseline, 0 of these by a kernel of their own; 1 are correct and slower"
        in text
    )
    assert "1 of 3, by rule: budget 1.\n\n- 1/30 (20.00× claimed): budget (main): 3 of 4\n" in text
    assert "- 2/10: 8.00× claimed, 2.00× [1.80, 2.20] over eager judged (4.0 times less)" in text
    assert "- 1/9: " not in text, "it does better than was claimed"
    assert "1 of the 4 are on tasks on which a wrong answer" in text
    assert "1 of the correct ones are specialised" in text
    assert "A lower end of 0.00" not in text
    assert "A lower end of 0.00" in page([line("1/9", 2.0, speedup={"eager": [2.0, 0.0, 3.0]})])
    rows = [t for t in text.splitlines() if t.startswith(("| 1/", "| 2/"))]
    assert [row.split()[1] for row in rows] == ["1/2", "1/9", "1/30", "2/10"]
    assert "f&lt;int&gt;" in rows[3]
    assert "timing \\| it" in rows[0]


def test_the_last_line_of_a_task_counts_and_a_torn_one_does_not(tmp_path: Path) -> None:
    from third_party import known_lines
    from third_party_report import page

    file = tmp_path / "lines.jsonl"
    first = line("1/9", 2.0, verdict="incorrect", rule="budget", reason="budget: no")
    file.write_text("".join(json.dumps(x) + "\n" for x in (first, line("1/9", 2.0))) + '{"task": "1/1')
    lines = known_lines(file)
    assert [x["verdict"] for x in lines] == ["incorrect", "correct"]
    text = page(lines)
    assert "0 of 1.\n\nNone.\n" in text
    assert "None was both correct and timed." in text

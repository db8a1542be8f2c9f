"""Growth by neighbours: in which order they are tried, what is tried again, and where it ends."""

from __future__ import annotations

import pytest

from warpsmith.codegen.fusion.growth import grow
from warpsmith.records import Region


def region(nodes: str) -> Region:
    return Region(nodes=tuple(nodes), inputs=(), outputs=(), signature="")


def text(found: Region) -> str:
    return "".join(found.nodes)


def grown(
    neighbours: str, refused_with: dict[str, str], taken: str = "", most: int = 9
) -> tuple[str, list[str]]:
    """From "a" over `neighbours`; a node is refused while the region is the one that `refused_with` names."""
    tried: list[str] = []

    def joined(found: Region, name: str) -> Region | None:
        tried.append(text(found) + name)
        return None if refused_with.get(name) == text(found) else region(text(found) + name)

    result = grow(
        region("a"), lambda r: [n for n in neighbours if n not in r.nodes], joined, set(taken), most
    )
    return text(result), tried


@pytest.mark.parametrize(
    ("neighbours", "refused", "taken", "most", "result", "tried"),
    [
        ("bc", {}, "", 9, "abc", ["ab", "abc"]),
        ("bc", {"b": "a"}, "", 9, "acb", ["ab", "ac", "acb"]),  # refused alone, accepted with c
        ("bc", {"b": "a"}, "b", 9, "ac", ["ac"]),
        ("bcd", {}, "", 3, "abc", ["ab", "abc"]),
        ("bc", {"b": "ac", "c": "ab"}, "", 9, "ab", ["ab", "abc"]),
        ("bc", {"b": "a", "c": "a"}, "", 9, "a", ["ab", "ac"]),
    ],
)
def test_neighbours_are_tried_in_order_and_anew_after_each_growth(
    neighbours: str, refused: dict[str, str], taken: str, most: int, result: str, tried: list[str]
) -> None:
    assert grown(neighbours, refused, taken, most) == (result, tried)

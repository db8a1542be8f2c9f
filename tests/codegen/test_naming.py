"""Names of values in emitted code: what a source may not say is no name."""

from __future__ import annotations

import pytest

from warpsmith.codegen.lowering.naming import identifier
from warpsmith.targets.source_rules import find_refusals


@pytest.mark.parametrize("hint", ["asm", "section", "alias", "symver", "weakref", "x", "0", "größe"])
def test_an_identifier_passes_the_rules_of_sources(hint: str) -> None:
    name = identifier(hint, ())
    assert name.isidentifier()
    assert find_refusals(f"int {name} = 1;\n") == ()


def test_a_name_that_is_taken_gets_a_number() -> None:
    assert identifier("x", {"x"}) == "x_s1"

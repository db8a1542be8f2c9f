"""Earlier names of techniques and tunables lead to present ones, and a present name never leads on."""

from __future__ import annotations

import pytest

from warpsmith.records import Region, Tunable, Unit
from warpsmith.records.technique_names import (
    TECHNIQUES,
    TUNABLES,
    current_branch,
    current_technique,
    current_values,
)


@pytest.mark.parametrize("table", [TECHNIQUES, TUNABLES], ids=["techniques", "tunables"])
def test_no_present_name_is_an_earlier_name_of_the_same_family(table):
    for key, names in table.items():
        family = table.get(key.partition("/")[0], {})
        assert not set(names.values()) & {*names, *family}, key


def test_no_two_techniques_of_a_family_became_one():
    for family, names in TECHNIQUES.items():
        assert len(set(names.values())) == len(names), family


def test_an_earlier_name_is_translated_within_its_family_only():
    assert current_technique("convolution", "flat") == "implicit-gemm-warp-specialized"
    assert current_technique("matmul", "wgmma") == "gemm-3xfp16"
    assert current_technique("attention", "wgmma") == "materialized-scores-3xfp16"
    assert current_technique("softmax", "stash") == "row-buffered"
    assert current_technique("llm", "flat") == "flat"


def test_a_translation_changes_nothing_when_it_is_done_again():
    for family, names in TECHNIQUES.items():
        for present in names.values():
            assert current_technique(family, present) == present
    values = {"TALL": 2, "TEAMS": 2, "CHANNELS": 128}
    once = current_values("convolution", "flat", values)
    assert once == {"MMA_TILES_M": 2, "CONSUMER_GROUPS": 2, "CHANNELS": 128}
    assert current_values("convolution", "implicit-gemm-warp-specialized", once) == once


def test_a_tunable_may_be_of_one_technique_alone():
    assert current_values("matmul", "skinny", {"TALL": 4}) == {"ROWS_PER_GROUP": 4}
    assert current_values("matmul", "wgmma", {"TALL": 4}) == {"TALL": 4}


def test_a_branch_keeps_its_regions():
    before = "convolution/flat@1bacc4 + pooling/lines@771207 + softmax/split@a0bf4c"
    after = (
        "convolution/implicit-gemm-warp-specialized@1bacc4 + pooling/lines@771207 + softmax/split-row@a0bf4c"
    )
    assert current_branch(before) == current_branch(after) == after
    assert current_branch("") == ""
    assert current_branch("teams + fused") == "persistent-cooperative + fused"  # as campaigns wrote it
    assert current_branch("wgmma") == "wgmma"  # of a product, or of attention
    assert current_branch("epilogue fused, row in registers") == "epilogue fused, row in registers"


def test_a_unit_keeps_its_own_values_and_knows_those_of_today():
    region = Region(nodes=("conv",), inputs=("x", "w"), outputs=("conv",), signature="conv|f32|r4")
    unit = Unit(
        region=region, language="cuda", source="// TEAMS", family="convolution", technique="flat",
        tunables=(Tunable(name="TEAMS", domain=(1, 2), value=2),),
    )  # fmt: skip
    assert unit.values == {"TEAMS": 2}  # its macros
    assert unit.current_values == {"CONSUMER_GROUPS": 2}

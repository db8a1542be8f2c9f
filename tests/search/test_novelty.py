"""What is not judged because it is like what was: by normal form, by embedding, by machine code. Off, everything is new."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from made_attempts import candidate, unit

from warpsmith.search.embedding import embed
from warpsmith.search.novelty import Novelty

LOOP = "static void unit(const in0_t* in0, out0_t* out0, void*, void*) {\n%s\n}\n"
STEPS = "".join(
    f"  float t{i} = in0[{i}] * {i}.5f + expf(in0[{i}]);\n  out0[{i}] = t{i};\n" for i in range(80)
)
LONG = LOOP % STEPS
NEARLY = LONG.replace("40.5f", "40.25f")  # one constant of eighty
OTHER = LOOP % "".join(f"  out0[{i}] = in0[{i}] > 0 ? in0[{i}] : 0;\n" for i in range(160))


def seen(*sources: str, threshold: float | None = 0.995, **values: int) -> Novelty:
    novelty = Novelty(threshold)
    for source in sources:
        novelty.add(candidate([unit(source=source, **values)]))
    return novelty


def test_other_words_for_the_same_source_are_not_new() -> None:
    earlier = candidate([unit(source=LONG)])
    novelty = Novelty()
    novelty.add(earlier)
    reworded = "// faster now\n" + LONG.replace("t40", "sum")
    assert (
        novelty.like(candidate([unit(source=reworded)]))
        == f"same source after normalisation as {earlier.id[:8]}"
    )
    assert novelty.rejected == {"same source": 1}


def test_other_values_flags_and_requirements_are_new() -> None:
    novelty = seen(LONG, UNROLL=2)
    assert novelty.like(candidate([unit(source=LONG, UNROLL=2)]))
    assert not novelty.like(candidate([unit(source=LONG, UNROLL=4)]))
    for update in ({"flags": ("-O2",)}, {"requires": ("in0_shape[0] % 4 == 0",)}, {"atomics": True}):
        assert not novelty.like(candidate([unit(source=LONG, UNROLL=2).model_copy(update=update)]))


def test_a_nearly_equal_rewrite_is_not_new_but_an_edit_of_it_is() -> None:
    novelty = seen(LONG)
    assert novelty.like(candidate([unit(source=NEARLY)])).split(" like ")[0] >= "0.995"
    assert novelty.rejected == {"like another source": 1}
    for operator in ("edit", "repair", "tune", "crossover", "simplify"):
        assert not novelty.like(candidate([unit(source=NEARLY)], operator))
    assert not novelty.like(candidate([unit(source=OTHER)]))


def test_the_threshold_decides_and_zero_is_off() -> None:
    again, near = candidate([unit(source=LONG)]), candidate([unit(source=NEARLY)])
    assert not seen(LONG, threshold=0.99999).like(near)
    assert seen(LONG, threshold=0.9).like(near)
    for off in (0.0, None):
        novelty = seen(LONG, threshold=off)
        assert not novelty.like(near)
        assert not novelty.like(again)
        assert not novelty.rejected


def test_nearly_equal_sources_at_other_values_or_on_other_regions_are_new() -> None:
    novelty = seen(LONG, UNROLL=2)
    assert novelty.like(candidate([unit(source=NEARLY, UNROLL=2)]))
    assert not novelty.like(candidate([unit(source=NEARLY, UNROLL=4)]))
    assert not novelty.like(candidate([unit((0, 1), source=NEARLY, UNROLL=2)]))


def test_one_new_unit_among_several_is_enough() -> None:
    novelty = Novelty()
    novelty.add(candidate([unit((0, 0), source=LONG), unit((1, 2), source=OTHER)]))
    assert novelty.like(candidate([unit((0, 0), source=NEARLY), unit((1, 2), source=OTHER)]))
    assert not novelty.like(candidate([unit((0, 0), source=NEARLY), unit((1, 2), source=LONG)]))


def test_the_same_machine_code_is_not_new() -> None:
    """Sources that differ, built to the same code; what cannot be said is new."""
    codes = {LONG: "f00", OTHER: "f00", "f(1);": "bad", "f(2);": "", "f(3);": ""}
    novelty = Novelty(assembly=lambda u: codes[u.source])
    earlier = candidate([unit(source=LONG)])
    for one in (earlier, candidate([unit(source="f(2);")])):
        novelty.add(one)
    assert novelty.like(candidate([unit(source=OTHER)], "tune")) == f"same assembly as {earlier.id[:8]}"
    assert not novelty.like(candidate([unit(source="f(1);")], "tune"))
    assert not novelty.like(candidate([unit(source="f(3);")], "tune"))
    assert not seen(LONG).like(candidate([unit(source=OTHER)], "tune"))


def test_the_same_code_that_is_judged_otherwise_is_new() -> None:
    novelty = Novelty(assembly=lambda u: "f00")
    novelty.add(candidate([unit(source=LONG)]))
    assert not novelty.like(candidate([unit(source=OTHER).model_copy(update={"atomics": True})]))
    assert not novelty.like(candidate([unit((0, 1), source=OTHER)]))


def test_sources_of_nothing_but_comments_are_told_apart() -> None:
    novelty = seen("// a")
    assert novelty.like(candidate([unit(source="// a")]))
    assert not novelty.like(candidate([unit(source="// b")]))


tokens = st.lists(st.sampled_from(["a", "b", "(", ")", ";", "+", "1"]), min_size=1, max_size=60)


@given(tokens, tokens)
def test_embeddings_have_length_one_and_cosines_in_range(one: list[str], other: list[str]) -> None:
    vector = embed(one)
    assert abs(float(np.linalg.norm(vector)) - 1.0) < 1e-5
    assert -1.0001 <= float(vector @ embed(other)) <= 1.0001
    assert np.array_equal(vector, embed(list(one)))


@given(st.integers(300, 900), st.integers(0, 299), st.integers(2, 40))
def test_more_changes_make_sources_less_alike(length: int, at: int, changes: int) -> None:
    source = [f"t{i % 37}" for i in range(length)]
    few, many = list(source), list(source)
    few[at] = "x"
    for i in range(changes):
        many[(at + 7 * i) % length] = f"y{i}"
    near, far = (float(embed(source) @ embed(s)) for s in (few, many))
    assert far < near < 1.0
    assert float(embed(source) @ embed(["z"] * length)) < 0.1

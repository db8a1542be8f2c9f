"""Input families keep what makes inputs legal, change what hides shortcuts, and follow their seed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from warpsmith.judge.correctness.family_values import MAKERS, fill
from warpsmith.judge.correctness.input_families import BOUNDED, FAMILIES, SECRET
from warpsmith.processes.buffers import ValuesFile
from warpsmith.records import GraphInput, TensorSpec


def given(
    name: str, shape: tuple[int, ...], dtype: str = "float32", role: str = "input", stride=None
) -> GraphInput:  # type: ignore[no-untyped-def]
    stride = stride or tuple(int(np.prod(shape[i + 1 :])) for i in range(len(shape)))
    return GraphInput(
        name=name, spec=TensorSpec(shape=shape, dtype=dtype, stride=stride), role=role, target=name
    )  # type: ignore[arg-type]


INPUTS = [
    given("x", (6, 40)), given("h", (6, 40), "bfloat16"), given("indices", (30,), "int64"), 
    given("mask", (50,), "bool"),
    given("inf_mask", (4,)), given("weight", (8, 8), role="param"), given("bias", (64,), role="param"),
    given("running_var", (64,), role="buffer"), given("t", (6, 40), stride=(1, 6)),
    given("e", (6, 40), stride=(0, 1)),
]  # fmt: skip
SPECS = [i.spec for i in INPUTS]


@pytest.fixture
def own(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    file = ValuesFile(tmp_path / "own", SPECS, create=True)
    for array in file.arrays():
        array[...] = rng.random(array.shape) if array.dtype == np.float32 else 0
    file.array(1)[...] = 0x3F80
    file.array(2)[...] = rng.integers(5, 9, 30)
    file.array(3)[...] = np.arange(50) < 10
    file.array(4)[...] = [0, -np.inf, 0, -np.inf]
    file.array(5)[...] = rng.standard_normal((8, 8)) * 0.01
    file.array(6)[...] = 0
    file.array(7)[...] = 1
    return file.path


def made(own: Path, family: str, seed: int = 1) -> list[np.ndarray]:
    path = own.with_name(f"{family}-{seed}-{len(list(own.parent.iterdir()))}")
    fill(family, seed, INPUTS, own, path)
    return [np.array(a) for a in ValuesFile(path, SPECS).arrays()]


def test_each_name_has_its_maker() -> None:
    assert tuple(MAKERS) == FAMILIES


@pytest.mark.parametrize("family", FAMILIES)
def test_what_must_stay_legal_does(own: Path, family: str) -> None:
    values = made(own, family)
    assert set(values[2]) <= {5, 6, 7, 8}
    assert values[3].sum() == 10
    np.testing.assert_array_equal(values[4], [0, -np.inf, 0, -np.inf])
    assert (values[7] > 0).all(), "a running variance is positive"
    assert np.isfinite(values[0]).all()
    assert np.isfinite((values[1].astype(np.uint32) << 16).view(np.float32)).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_values_follow_the_seed(own: Path, family: str) -> None:
    one, two, other = made(own, family, 3), made(own, family, 3), made(own, family, 4)
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(one[0], other[0])


def test_weights_are_fresh_and_of_the_old_scale(own: Path) -> None:
    values = made(own, "normal")
    assert 0.003 < values[5].std() < 0.03
    assert values[6].std() > 0.1, "a bias of zeros would hide that it is left out"
    assert not np.array_equal(values[7], np.ones(64))


def test_faint_weights_are_tiny_too_and_keep_their_sign(own: Path) -> None:
    values = made(own, "faint")
    assert 0 < abs(values[5]).max() < 1e-5
    assert 0 < abs(values[6]).max() < 1e-3
    assert (values[7] > 0).all()
    assert (values[7] < 1e-2).all()
    assert set(values[2]) <= {5, 6, 7, 8}


def test_each_family_is_what_it_says(own: Path) -> None:
    x = {family: made(own, family)[0] for family in FAMILIES}
    assert (x["normal"] < 0).any()
    assert (x["normal"] > 0).any()
    assert abs(x["heavy"]).max() > 5 * np.median(abs(x["heavy"]))
    assert x["large"].std() > 40
    assert x["tiny"].std() < 1e-3
    assert 45 < x["offset"].mean() < 55
    assert len(np.unique(x["close"])) > 200
    assert len(np.unique(x["close"].astype(np.float16))) <= 4
    assert 0.8 < (x["sparse"] == 0).mean() < 1
    assert (x["constant-rows"] == x["constant-rows"][:, :1]).all()
    assert (x["integers"] == np.round(x["integers"])).all()
    assert (x["shuffled"] >= 0).all()
    assert abs(x["huge"]).max() == pytest.approx(1e30)
    assert (x["huge"] < 0).any()


def test_the_secret_family_is_another_with_each_seed(own: Path) -> None:
    drawn = [made(own, SECRET, seed)[0] for seed in range(30)]
    scales = [abs(x).max() for x in drawn]
    assert max(scales) > 1e3 * min(scales)
    assert any((x >= 0).all() for x in drawn)
    assert any((np.diff(x) >= 0).all() for x in drawn)
    assert any((x == 0).mean() > 0.3 for x in drawn)
    assert any((x[:, 0] == x[:, 1]).all() and (x != x[:, :1]).any() for x in drawn)


def test_magnitudes_stay_below_the_exponent(own: Path) -> None:
    for family in BOUNDED:
        path = own.with_name(f"{family}-bounded")
        fill(family, 4, INPUTS, own, path, exponent=3)
        assert abs(ValuesFile(path, SPECS).array(0)).max() <= 1000 * (1 + 1e-6)


def test_strided_and_expanded_inputs_are_filled(own: Path) -> None:
    values = made(own, "normal")
    assert (values[8] < 0).any()
    np.testing.assert_array_equal(values[9], np.broadcast_to(values[9][:1], (6, 40)))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("form", ["lower", "upper", "diagonal", "symmetric"])
def test_the_form_of_a_square_matrix_stays(tmp_path: Path, family: str, form: str) -> None:
    x = np.random.default_rng(0).random((3, 9, 9), np.float32)
    forms = {
        "lower": np.tril(x),
        "upper": np.triu(x),
        "diagonal": x * np.eye(9),
        "symmetric": x + x.swapaxes(1, 2),
    }
    item = given("x", (3, 9, 9))
    own = ValuesFile(tmp_path / "own", [item.spec], create=True)
    own.array(0)[...] = forms[form]
    fill(family, 6, [item], own.path, tmp_path / "made")
    fresh = ValuesFile(tmp_path / "made", [item.spec]).array(0)
    assert fresh.any()
    assert form in ("upper", "symmetric") or not np.triu(fresh, 1).any()
    assert form in ("lower", "symmetric") or not np.tril(fresh, -1).any()
    assert form in ("lower", "upper") or np.array_equal(fresh, fresh.swapaxes(1, 2))


def test_zeros_and_general_matrices_have_no_form(tmp_path: Path) -> None:
    items = [given("state", (9, 9)), given("general", (9, 9))]
    own = ValuesFile(tmp_path / "own", [i.spec for i in items], create=True)
    own.array(0)[...] = 0
    own.array(1)[...] = np.random.default_rng(0).random((9, 9))
    fill("normal", 5, items, own.path, tmp_path / "made")
    for fresh in ValuesFile(tmp_path / "made", [i.spec for i in items]).arrays():
        assert np.triu(fresh, 1).any()
        assert np.tril(fresh, -1).any()
        assert not np.array_equal(fresh, fresh.T)

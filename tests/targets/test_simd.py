"""warpsmith_simd.h against float64: compiled for several instruction sets and widths, run through ctypes."""

from __future__ import annotations

import ctypes
import platform
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import warpsmith.targets

HEADER_FOLDER = Path(warpsmith.targets.__file__).parent
FLAGS = [
    "-O3",
    "-std=c++17",
    "-fPIC",
    "-shared",
    "-fopenmp",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=fast",
]
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wno-psabi"]
CXX = shutil.which("g++") or shutil.which("clang++")
pytestmark = pytest.mark.skipif(CXX is None, reason="no C++ compiler")

Array = np.ndarray


@dataclass(frozen=True)
class Function:
    """One mathematical function: the exact reference, the bound in ulp, and where the bound holds."""

    reference: Callable[[Array], Array]
    ulp: float
    low: float = -np.inf
    high: float = np.inf


def _torch(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Array], Array]:
    return lambda x: function(torch.from_numpy(np.asarray(x, np.float64))).numpy()


def _gelu_tanh(x: Array) -> Array:
    return x / (1 + np.exp(-2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def _softplus(x: Array) -> Array:
    return np.where(x > 20, x, np.log1p(np.exp(np.minimum(x, 20))))


FUNCTIONS = {
    "exp": Function(np.exp, 1.2),
    "exp_nonpos": Function(np.exp, 1.2, low=-87.3, high=0),
    "exp_nonpos_fast": Function(np.exp, 6.0, low=-20, high=0),
    "exp2": Function(np.exp2, 1.3),
    "expm1": Function(np.expm1, 1.6),
    "log": Function(np.log, 1.3, low=0),
    "log2": Function(np.log2, 2.3, low=0),
    "log10": Function(np.log10, 3.0, low=0),
    "log1p": Function(np.log1p, 1.8, low=-1),
    "tanh": Function(np.tanh, 1.6),
    "sigmoid": Function(lambda x: 1 / (1 + np.exp(-x)), 2.5, low=-87),
    "silu": Function(lambda x: x / (1 + np.exp(-x)), 3.0, low=-87),
    "softplus": Function(_softplus, 2.5, low=-87),
    "mish": Function(lambda x: x * np.tanh(_softplus(x)), 4.0, low=-80),
    "erf": Function(_torch(torch.erf), 2.5),
    "gelu_tanh": Function(_gelu_tanh, 8.0, low=-2),
    "sin": Function(np.sin, 2.4),
    "cos": Function(np.cos, 2.4),
    "sqrt": Function(np.sqrt, 0.5, low=0),
    "rsqrt": Function(lambda x: 1 / np.sqrt(x), 1.6, low=0),
    "floor": Function(np.floor, 0.0),
    "ceil": Function(np.ceil, 0.0),
    "trunc": Function(np.trunc, 0.0),
    "round_even": Function(np.rint, 0.0),
    "abs": Function(np.abs, 0.0),
    "atan": Function(np.arctan, 3.0),
    "asin": Function(np.arcsin, 3.0, low=-1, high=1),
    "acos": Function(np.arccos, 3.0, low=-1, high=1),
    "tan": Function(np.tan, 4.0),
    "sinh": Function(np.sinh, 3.0),
    "cosh": Function(np.cosh, 3.0),
    "asinh": Function(np.arcsinh, 4.0),
    "acosh": Function(np.arccosh, 4.0, low=1),
    "atanh": Function(np.arctanh, 4.0, low=-1, high=1),
    "erfc": Function(_torch(torch.erfc), 3.0, high=9),
    "log_sigmoid": Function(lambda x: -np.logaddexp(0, -x), 2.5, high=87),
    "relu": Function(lambda x: np.where(x < 0, 0, x), 0.0),
}

SOURCE = Path(__file__).with_name("simd_functions.cpp").read_text()


def _source() -> str:
    calls = []
    for name in FUNCTIONS:
        calls.append(f"""EXPORT void vector_{name}(const float* a, float* o, int64_t n) {{
    binary(a, a, o, n, [](vf x, vf) {{ return ws::{name}(x); }});
}}
EXPORT void scalar_{name}(const float* a, float* o, int64_t n) {{
    for (int64_t i = 0; i < n; ++i) o[i] = ws::{name}(a[i]);
}}
""")
    return SOURCE + "".join(calls)


def _cpu_flags() -> set[str]:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return set(next((line for line in lines if line.startswith("flags")), "").split())


# The native width, a narrower one, no x86 builtins, one that the compiler splits, the baseline without FMA.
BUILDS = [
    ("native", ""),
    ("native", "-DVEC=8"),
    ("native", "-DWS_PORTABLE"),
    ("haswell", "-DVEC=16"),
    ("x86-64", "-DVEC=4"),
]


def _compile(folder: Path, flags: list[str]) -> ctypes.CDLL:
    """unit.cpp in `folder` → unit.so, loaded."""
    command = [CXX or "", *FLAGS, *flags, f"-I{HEADER_FOLDER}", "unit.cpp", "-o", "unit.so"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(folder / "unit.so"))


@pytest.fixture(scope="module", params=BUILDS, ids=lambda b: "".join(b))
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The header compiled for one instruction set and width, every function exported."""
    march, macro = request.param
    if march != "native" and platform.machine() != "x86_64":
        pytest.skip("an x86 instruction set")
    if march == "haswell" and not {"avx2", "fma", "f16c"} <= _cpu_flags():
        pytest.skip("this machine has no AVX2")
    folder = tmp_path_factory.mktemp("simd")
    (folder / "unit.cpp").write_text(_source())
    loaded = _compile(folder, [*WARNINGS, f"-march={march}", *macro.split()])
    for name in ("row_sum", "wide_sum", "parallel_sum"):
        getattr(loaded, name).restype = ctypes.c_double
    loaded.row_max.restype = ctypes.c_float
    return loaded


def _address(array: Array) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def _call(library: ctypes.CDLL, name: str, x: Array, dtype: type = np.float32) -> Array:
    out = np.empty(x.shape, dtype)
    getattr(library, name)(_address(x), _address(out), ctypes.c_int64(x.size))
    return out


def _binary(library: ctypes.CDLL, name: str, a: Array, b: Array) -> Array:
    out = np.empty_like(a)
    getattr(library, name)(_address(a), _address(b), _address(out), ctypes.c_int64(a.size))
    return out


def _ulp_error(got: Array, exact: Array) -> Array:
    """|got - exact| in units of the fp32 spacing at exact; 0 where both are the same infinity or both NaN."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(np.float32)
        same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
        spacing = np.spacing(np.minimum(np.abs(rounded), np.float32(3e38))).astype(np.float64)
        error: Array = np.where(same, 0.0, np.abs(got.astype(np.float64) - exact) / spacing)
    return error


def _grid(function: Function, count: int = 60_001) -> Array:
    rng = np.random.default_rng(7)
    sign = rng.choice([-1.0, 1.0], count)
    parts = [
        rng.uniform(-110, 110, count),
        rng.uniform(-2, 2, count),
        rng.normal(size=count) * 5,
        sign * np.exp(rng.uniform(-85, 0, count)),
        sign * np.exp(rng.uniform(0, 85, count)),
    ]
    x = np.concatenate(parts).astype(np.float32)
    return np.ascontiguousarray(x[(x > function.low) & (x < function.high)])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_accuracy(library: ctypes.CDLL, name: str) -> None:
    function = FUNCTIONS[name]
    x = _grid(function)
    with np.errstate(all="ignore"):
        exact = function.reference(x.astype(np.float64))
    for kind in ("vector", "scalar"):
        error = _ulp_error(_call(library, f"{kind}_{name}", x), exact)
        worst = int(np.argmax(np.nan_to_num(error, nan=np.inf)))
        assert error[worst] <= function.ulp, f"{kind} {name}({x[worst]!r}): {error[worst]} ulp"


# silu, mish and gelu_tanh of -inf are NaN, as in torch and in the formulas above.
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -5.0, 1e-40, -1e-40, 3e38, -3e38], np.float32)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_special_values(library: ctypes.CDLL, name: str) -> None:
    x = SPECIAL
    if name.startswith("exp_nonpos"):
        x = np.array([0.0, -0.0, -np.inf, np.nan, -1000.0], np.float32)
    with np.errstate(all="ignore"):
        exact = FUNCTIONS[name].reference(x.astype(np.float64)).astype(np.float32)
    if name in {"sin", "cos", "tan"}:
        x, exact = x[:8], exact[:8]
    for kind in ("vector", "scalar"):
        got = _call(library, f"{kind}_{name}", np.ascontiguousarray(x))
        np.testing.assert_allclose(got, exact, rtol=1e-6, atol=1e-37, err_msg=f"{kind} {name} of {x}")
        if exact[1] == 0 and name not in {"abs", "relu"}:
            assert np.signbit(got[1]) == np.signbit(exact[1]), f"{kind} {name}(-0.0)"


@pytest.mark.parametrize("name", ["gelu_vector", "gelu_scalar"])
def test_gelu_is_no_less_accurate_than_torch(library: ctypes.CDLL, name: str) -> None:
    x = np.concatenate([np.linspace(-12, 12, 400_001), [-1e30, 1e30, -0.0, np.inf]]).astype(np.float32)
    wide = torch.from_numpy(x.astype(np.float64))
    exact = (0.5 * wide * torch.special.erfc(-wide / 2**0.5)).numpy()
    got = _binary(library, name, x, x)
    theirs = torch.nn.functional.gelu(torch.from_numpy(x)).numpy()
    inside = np.abs(x) < 12
    for low in range(-12, 12, 2):
        part = inside & (x >= low) & (x < low + 2)
        last_place = float(
            np.spacing(np.float32(np.abs(exact[part]).max()))
        )  # of the largest; torch's error differs by processor
        allowed = max(1.05 * np.abs(theirs[part] - exact[part]).max(), last_place) + 1e-8
        assert np.abs(got[part] - exact[part]).max() <= allowed, low
    assert got[-4] == 0.0
    assert got[-3] == np.float32(1e30)
    assert got[-1] == np.inf
    assert np.isnan(_binary(library, name, np.array([np.nan], np.float32), x))[0]


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("copy_f32", np.float32), ("copy_i32", np.int32), ("copy_i64", np.int64), ("copy_bool", np.bool_)],
)
def test_partial_access_touches_only_its_lanes(library: ctypes.CDLL, name: str, dtype: type) -> None:
    width = library.width()
    for n in range(2 * width + 1):
        values = (np.arange(1, n + 1) % (2 if dtype is np.bool_ else 1000)).astype(dtype)
        out = np.full(n + 2, 1, dtype)
        guarded = out[1:]
        getattr(library, name)(_address(values), _address(guarded), ctypes.c_int64(n))
        np.testing.assert_array_equal(out[1 : n + 1], values)
        assert out[0] == 1
        assert out[n + 1] == 1


def test_partial_load_fills_the_other_lanes(library: ctypes.CDLL) -> None:
    width = library.width()
    for n in range(width + 1):
        out = np.zeros(width, np.float32)
        library.fill_tail(_address(np.arange(width, dtype=np.float32)), _address(out), n)
        np.testing.assert_array_equal(out, np.where(np.arange(width) < n, np.arange(width), 7))


@pytest.mark.parametrize(("name", "dtype"), [("bf16", torch.bfloat16), ("f16", torch.float16)])
def test_half_types_convert_as_torch(library: ctypes.CDLL, name: str, dtype: torch.dtype) -> None:
    bits = np.arange(65536, dtype=np.uint16)[:-3]  # a ragged end, too
    wide = _call(library, f"widen_{name}", bits)
    expected = torch.from_numpy(bits.view(np.int16)).view(dtype).float().numpy()
    np.testing.assert_array_equal(wide, expected)
    rng = np.random.default_rng(3)
    words = rng.integers(0, 2**32, 200_001, dtype=np.uint64).astype(np.uint32).view(np.float32)
    finite = expected[np.isfinite(expected)]
    near = [finite, np.nextafter(finite, np.float32(1e38)), rng.normal(size=100_000), np.arange(-3, 3) * 1e-8]
    x = np.concatenate([words, *(part.astype(np.float32) for part in near), SPECIAL])
    narrow = _call(library, f"narrow_{name}", x, np.uint16)
    got = torch.from_numpy(narrow.view(np.int16)).view(dtype).float().numpy()
    np.testing.assert_array_equal(got, torch.from_numpy(x).to(dtype).float().numpy())


def test_one_element_of_a_half_type(library: ctypes.CDLL) -> None:
    values, out = np.array([0x3FC0, 0x1234], np.uint16), np.array([9, 9], np.uint16)
    library.one_bf16(_address(values), _address(out))
    assert out.tolist() == [0x3FC0, 9]


def test_minimum_and_maximum(library: ctypes.CDLL) -> None:
    values = np.array([1.0, -1.0, np.nan, np.inf, -np.inf, 0.0, 5.0], np.float32)
    a, b = (np.ascontiguousarray(m.ravel()) for m in np.meshgrid(values, values))
    np.testing.assert_array_equal(_binary(library, "max_nan", a, b), np.maximum(a, b))
    np.testing.assert_array_equal(_binary(library, "min_nan", a, b), np.minimum(a, b))
    np.testing.assert_array_equal(_binary(library, "max_plain", a, b), np.where(a > b, a, b))
    np.testing.assert_array_equal(_binary(library, "min_plain", a, b), np.where(a < b, a, b))
    np.testing.assert_array_equal(_binary(library, "clamp_unit", a, a), np.clip(a, -1, 1))


def test_powers(library: ctypes.CDLL) -> None:
    rng = np.random.default_rng(5)
    a = rng.uniform(0.01, 20, 10_003).astype(np.float32)
    b = rng.uniform(-8, 8, 10_003).astype(np.float32)
    wide = a.astype(np.float64)
    assert _ulp_error(_binary(library, "power", a, b), wide ** b.astype(np.float64)).max() <= 1.0
    assert _ulp_error(_binary(library, "cube", a, a), wide**3).max() <= 2.0
    assert _ulp_error(_binary(library, "inverse_square", a, a), wide**-2).max() <= 2.0


def test_two_argument_functions(library: ctypes.CDLL) -> None:
    rng = np.random.default_rng(9)
    special = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 3.5, -0.75, 1e30, 1e-30], np.float32)
    a, b = (np.ascontiguousarray(m.ravel()) for m in np.meshgrid(special, special))
    x = (rng.normal(size=20_003) * np.exp(rng.uniform(-10, 10, 20_003))).astype(np.float32)
    y = (rng.normal(size=20_003) * np.exp(rng.uniform(-4, 4, 20_003))).astype(np.float32)
    for left, right in ((a, b), (x, y)):
        with np.errstate(all="ignore"):
            exact = np.arctan2(left.astype(np.float64), right.astype(np.float64))
            assert _ulp_error(_binary(library, "two_atan2", left, right), exact).max() <= 4.0
            np.testing.assert_array_equal(_binary(library, "two_fmod", left, right), np.fmod(left, right))
        ours, theirs = torch.from_numpy(left), torch.from_numpy(right)
        for name, function in (("remainder", torch.remainder), ("floor_divide", torch.floor_divide)):
            got = _binary(library, f"two_{name}", left, right)
            np.testing.assert_array_equal(got, function(ours, theirs).numpy(), err_msg=name)


@pytest.mark.parametrize("name", ["trunc_div", "floor_div", "floor_mod"])
def test_integer_division(library: ctypes.CDLL, name: str) -> None:
    values = np.array([0, 1, -1, 2, -2, 7, -7, 10**12, -(10**12), 2**62, -(2**62)], np.int64)
    a, b = (np.ascontiguousarray(m.ravel()) for m in np.meshgrid(values, values[1:]))
    rounding = {"trunc_div": "trunc", "floor_div": "floor"}
    with np.errstate(all="ignore"):
        exact = (
            torch.div(torch.from_numpy(a), torch.from_numpy(b), rounding_mode=rounding[name])
            if name in rounding
            else torch.remainder(torch.from_numpy(a), torch.from_numpy(b))
        ).numpy()
    np.testing.assert_array_equal(_binary(library, name, a, b), exact)
    zero = np.zeros_like(a)
    np.testing.assert_array_equal(_binary(library, name, a, zero), zero)


def test_across_the_lanes(library: ctypes.CDLL) -> None:
    width = library.width()
    rng = np.random.default_rng(2)
    x = rng.uniform(0.5, 1.5, width).astype(np.float32)
    out = np.empty(8, np.float32)
    for position in range(width):  # the extreme in each lane in turn
        y = x.copy()
        y[position] = 101.0
        library.across(_address(y), _address(out))
        wide = y.astype(np.float64)
        np.testing.assert_allclose(out[:4], [wide.sum(), wide.prod(), 101.0, wide.min()], rtol=1e-6)
        np.testing.assert_allclose(out[4:], [101.0, wide.min(), 1.0, wide.sum()], rtol=1e-6)
        y[position] = np.nan
        library.across(_address(y), _address(out))
        assert np.isnan(out[[0, 1, 4, 5]]).all()
        assert out[6] == 0.0


@pytest.mark.parametrize("n", [0, 1, 3, 15, 16, 17, 63, 64, 65, 1023, 4099, 70_001, 1_000_003])
def test_long_sums_keep_fp32_accuracy(library: ctypes.CDLL, n: int) -> None:
    x = np.random.default_rng(n).uniform(0, 1, n).astype(np.float32)
    exact = x.astype(np.float64).sum()
    assert library.row_sum(_address(x), ctypes.c_int64(n)) == pytest.approx(exact, rel=2e-7)
    assert library.wide_sum(_address(x), ctypes.c_int64(n)) == pytest.approx(exact, rel=2e-7)
    assert library.parallel_sum(_address(x), 4, ctypes.c_int64(n)) == pytest.approx(exact, rel=2e-7)
    if n:
        assert library.row_max(_address(x), ctypes.c_int64(n)) == x.max()
        x[n // 2] = np.nan
        assert np.isnan(library.row_sum(_address(x), ctypes.c_int64(n)))


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 3000),
    offset=st.sampled_from([0.0, 1.0, -300.0, 1e5]),
    seed=st.integers(0, 2**31),
    outlier=st.sampled_from([0.0, 30.0]),
)
def test_row_moments(native: ctypes.CDLL, n: int, offset: float, seed: int, outlier: float) -> None:
    x = (np.random.default_rng(seed).normal(size=n) + offset).astype(np.float32)
    x[0] += np.float32(outlier)  # the origin that is subtracted may be far from the rest
    out = np.empty(2)
    native.row_moments(_address(x), ctypes.c_int64(n), _address(out))
    wide = x.astype(np.float64)
    spread = wide.std() + 1e-30
    assert abs(out[0] - wide.mean()) <= 3e-6 * spread + 1e-6 * abs(outlier)
    tolerance = 2e-6 + (2e-5 if outlier else 0.0)
    assert out[1] == pytest.approx(((wide - wide.mean()) ** 2).sum(), rel=tolerance, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(
    threads=st.integers(1, 5),
    n=st.integers(0, 5000),
    grain=st.integers(0, 2000),
    align=st.sampled_from([1, 4, 16, 64]),
)
def test_ranges_cover_each_item_once(
    native: ctypes.CDLL, threads: int, n: int, grain: int, align: int
) -> None:
    visits, part = np.zeros(n, np.int32), np.full(n, -1, np.int32)
    arguments = [ctypes.c_int64(v) for v in (n, grain, align)]
    native.cover(threads, *arguments, _address(visits), _address(part))
    assert (visits == 1).all()
    assert (np.diff(part) >= 0).all()
    assert (np.flatnonzero(np.diff(part)) % align == align - 1).all()
    assert len(np.unique(part)) <= max(1, min(threads, n // max(grain, 1)))


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The header compiled for this machine at its default width."""
    folder = tmp_path_factory.mktemp("native")
    (folder / "unit.cpp").write_text(SOURCE)
    return _compile(folder, ["-march=native"])


def test_moments_of_a_long_row_keep_fp32_accuracy(native: ctypes.CDLL) -> None:
    x = (np.random.default_rng(0).normal(size=3_000_017) * 2 + 50).astype(np.float32)
    out = np.empty(2)
    native.row_moments(_address(x), ctypes.c_int64(x.size), _address(out))
    wide = x.astype(np.float64)
    assert out[0] == pytest.approx(wide.mean(), rel=1e-7)
    assert out[1] / x.size == pytest.approx(wide.var(), rel=5e-7)


def test_parallel_sum_is_deterministic(native: ctypes.CDLL) -> None:
    native.parallel_sum.restype = ctypes.c_double
    x = np.random.default_rng(1).normal(size=100_003).astype(np.float32)
    results = {native.parallel_sum(_address(x), 3, ctypes.c_int64(x.size)) for _ in range(20)}
    assert len(results) == 1


@pytest.mark.parametrize("shift", [0, 1, 5])
def test_streaming_stores_write_the_same(library: ctypes.CDLL, shift: int) -> None:
    n = 40 * library.width()
    x = np.arange(n, dtype=np.float32)
    out = np.zeros(n + 16, np.float32)[shift : shift + n]
    library.stream_copy(_address(x), _address(out), ctypes.c_int64(n))
    np.testing.assert_array_equal(out, x)


def test_a_unit_may_use_short_macro_names_for_its_tunables(tmp_path: Path) -> None:
    body = 'extern "C" void f(float* p) { ws::store(p, ws::gelu(ws::load(p))); }'
    (tmp_path / "unit.cpp").write_text(f'#include "warpsmith_simd.h"\n{body}\n')
    tunables = [f"-D{name}=4" for name in ("U", "V", "T", "N", "C", "F", "BLOCK", "UNROLL", "NT", "KB")]
    assert _compile(tmp_path, tunables)


def test_scalar_functions_have_no_undefined_behaviour(tmp_path: Path) -> None:
    """Winners run under a sanitizer that sees what scalars do; vectors are not looked at."""
    source = tmp_path / "scalars.cpp"
    source.write_text(
        "#include <stdint.h>\nstruct ws_bf16 { uint16_t bits; };\nstruct ws_f16 { uint16_t bits; };\n"
        '#include "warpsmith_simd.h"\n'
        "int main() {\n"
        "    volatile float x[] = {0.0f, -0.5f, -3.0f, -80.0f, -1e30f, -__builtin_inff()};\n"
        "    float sum = 0;\n"
        "    for (float v : x) sum += ws::exp_nonpos(v) + ws::exp(v) + ws::exp2(v) + ws::sigmoid(v) + ws::tanh(v);\n"
        "    return sum > 0 ? 0 : 1;\n"
        "}\n"
    )
    trapping = ["-fsanitize=undefined", "-fsanitize-undefined-trap-on-error"]
    program = tmp_path / "scalars"
    command = [str(CXX), "-O1", "-std=c++17", "-fopenmp", "-Wno-psabi", *trapping, f"-I{HEADER_FOLDER}"]
    subprocess.run([*command, str(source), "-o", str(program)], check=True)
    assert subprocess.run([str(program)]).returncode == 0

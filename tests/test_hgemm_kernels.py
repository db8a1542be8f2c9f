"""`benchmarks/hgemm_kernels.py`: a kernel that hangs or crashes costs itself alone; names, definitions and tables. No GPU."""

from __future__ import annotations

import gzip
import importlib
import json
import math
import re
import statistics
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FAKE_DRIVER = """#!{python}
import sys, time
mode, variants, shapes = sys.argv[1:4]
for shape in (open(shapes) if mode == "time" else ["64 64 64 1 0"]):
    m, n, k, bt, bf16, *chosen = shape.split()
    names = [line.split()[0] for line in open(variants)]
    for name in [names[int(i)] for i in chosen] or names:
        print("BEGIN", name, shape, flush=True)
        if "s3_" in name:
            time.sleep(60)
        if "_176x" in name or "x176x" in name:
            sys.exit(3)
        place = '"name": "%s", "m": %s, "n": %s, "k": %s, "b_transposed": %s, "bf16": %s' % (name, m, n, k, bt, bf16)
        print("{{" + place + (', "status": "right", "error": 1e-4}}' if mode == "check" else ', "cold_us": 1.0}}'), flush=True)
print("DONE")
"""


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[1] / "benchmarks"))
    return importlib.import_module("hgemm_kernels")


@pytest.fixture
def driver(tmp_path: Path) -> Path:
    path = tmp_path / "driver"
    path.write_text(FAKE_DRIVER.format(python=sys.executable))
    path.chmod(0o755)
    return path


def test_check_goes_on_after_a_hang_and_a_crash(kernels: ModuleType, driver: Path) -> None:
    variants = kernels.list_variants(["large"], "wco_128x*_nk*_g8m")
    rows: list[dict[str, Any]] = []
    kernels.run_check(driver, variants, 0.5, math.inf, rows.append)
    ended = {row["name"]: row["status"] for row in rows}
    assert list(ended) == [v.name for v in variants]
    expected = {
        v.name: "hang" if "s3_" in v.name else "crash" if "x176x" in v.name else "right" for v in variants
    }
    assert ended == expected
    assert set(expected.values()) == {"hang", "crash", "right"}
    assert [v.name for v in kernels.select_right(variants, rows)] == [
        n for n, s in ended.items() if s == "right"
    ]


def test_the_promising_are_timed_and_nothing_twice(kernels: ModuleType, driver: Path) -> None:
    """Those of the shape's layout, in which blocks share operands where the L2 cache would bound them."""
    variants = kernels.list_variants(["large", "clusters", "small"], "*")
    variants = [v for v in variants if "s3_" not in v.name and "176x" not in v.name]
    rows: list[dict[str, Any]] = []
    shapes = kernels.list_shapes([(4096,) * 3, (64,) * 3], [0], [1, 0])
    kernels.run_time(driver, variants, shapes, 1, 100, 5.0, math.inf, rows.append, 6)
    timed = {(r["m"], r["b_transposed"]): [] for r in rows if "cold_us" in r}
    for row in (r for r in rows if "cold_us" in r):
        timed[row["m"], row["b_transposed"]].append(row["name"])
    assert {place: len(names) for place, names in timed.items()} == dict.fromkeys(
        [(4096, 1), (4096, 0), (64, 1), (64, 0)], 6
    )
    assert all(re.search("_c[12][12]_", name) for name in timed[4096, 1])
    assert all(name.startswith("m_") and "_kn_" in name for name in timed[64, 0])
    more = [*shapes, "512 512 512 1 0"]
    assert kernels.list_untimed(more, "0/1", rows) == ["512 512 512 1 0"]
    assert kernels.list_untimed(more, "1/2", []) == more[1::2]
    with pytest.raises(SystemExit, match="2/2 is no shard"):
        kernels.list_untimed(more, "2/2", [])


def test_estimates_are_near_what_an_h100_took(kernels: ModuleType) -> None:
    """The recorded times, without clusters: the 24 first by their estimates hold one that is nearly the best."""
    model = importlib.import_module("hgemm_model")
    record = Path(__file__).resolve().parents[1] / "results/h100/hgemm_kernels.jsonl.gz"
    with gzip.open(record, "rt") as file:
        rows = [json.loads(line) for line in file]
    alone = {v.name: v for v in kernels.list_variants([], "*") if not re.search(r"_c\d\d_", v.name)}
    by_name = {
        r["name"]: r["replay_us"]
        for r in rows
        if (r.get("m"), r.get("n"), r.get("k"), r.get("b_transposed")) == (4096, 4096, 4096, 1)
    }
    for name in ("wco_128x256x64_s4_nk_g8m", "wpp_128x128x64_s6_nk_g8m", "wco_256x192x64_s3_nk_x1_g8m"):
        estimate = model.estimate_us(alone[name].configuration, alone[name].launch, (4096, 4096, 4096))
        assert estimate == pytest.approx(by_name[name], rel=0.25)
    miss = model.measure_miss(alone, rows, 24)
    assert len(miss) == 33
    assert statistics.geometric_mean(miss.values()) < 1.02
    first, corrected = (f(alone, rows, 1) for f in (model.measure_miss, model.measure_corrected_miss))
    assert statistics.geometric_mean(corrected.values()) < statistics.geometric_mean(first.values())


def test_correction_knows_nothing_of_its_own_shape(kernels: ModuleType) -> None:
    model = importlib.import_module("hgemm_model")
    times = {
        (64, 64, 64, 0): {"v": (1.0, 2.0)},
        (64, 64, 64, 1): {"v": (1.0, 9.0)},
        (128, 64, 64, 1): {"v": (2.0, 2.0)},
    }
    assert model.correct("v", (64, 64, 64, 0), times) == (1.0, 2.0)
    corrected, timed_us = model.correct("v", (128, 64, 64, 1), times)
    assert timed_us == 2.0
    assert 2.0 < corrected < 2.0 * 18**0.5  # of a factor of 2 and one of 9, drawn towards the model


def test_timing_leaves_out_what_hangs_and_times_the_rest_at_every_shape(
    kernels: ModuleType, driver: Path
) -> None:
    variants = kernels.list_variants(["large"], "wco_128x256x64_s[34]_nk_g8m")
    assert len(variants) == 2
    rows: list[dict[str, Any]] = []
    kernels.run_time(driver, variants, ["64 64 64 1 0", "64 64 128 1 0"], 1, 100, 0.5, math.inf, rows.append)
    assert [r["name"] for r in rows if r.get("status") == "hang"] == [
        v.name for v in variants if "s3_" in v.name
    ]
    timed = {(r["name"], r["k"]) for r in rows if "cold_us" in r}
    assert {(v.name, 128) for v in variants if "s4_" in v.name} <= timed


def test_names_tell_configurations_and_launches_apart(kernels: ModuleType) -> None:
    variants = kernels.list_variants(list(kernels.GROUPS), "*")
    names = [v.name for v in variants]
    assert len(set(names)) == len(names) > 300
    assert not any(set(n) - set("abcdefghijklmnopqrstuvwxyz0123456789_") for n in names)
    lines = [v.line.split() for v in variants]
    assert all(len(words) == 6 for words in lines)


def test_every_definition_of_a_unit_is_given(kernels: ModuleType) -> None:
    for configuration in (v.configuration for v in kernels.list_variants(["large", "small"], "*_g8m")):
        sources = [(kernels.UNITS / name).read_text() for name in (configuration.unit, "unit_types.h")]
        names = {d.removeprefix("-D").split("=")[0] for d in kernels.list_definitions(configuration)}
        assert names == set(re.findall(r"\bG_\w+", "".join(sources)))


def test_a_variant_counts_as_right_only_where_every_row_says_so(kernels: ModuleType) -> None:
    variants = kernels.list_variants(["large"], "wpp_64x256*_g8m")
    right, wrong, silent, *_ = (v.name for v in variants)
    rows = [
        {"name": right, "status": "right"}, {"name": wrong, "status": "right"}, {"name": wrong, "status": "WRONG"},
        {"device": "a GPU"},
    ]  # fmt: skip
    assert [v.name for v in kernels.select_right(variants, rows)] == [right]
    text = kernels.summarize_check(rows[:3])
    assert wrong in text
    assert "2 variants, 1 right at every shape" in text
    assert silent not in text


def test_table_puts_the_library_beside_the_quickest(kernels: ModuleType) -> None:
    place = {"m": 4096, "n": 4096, "k": 4096, "b_transposed": 1, "bf16": 0}
    times = {
        "empty": 2.0,
        "cublaslt_heuristic": 190.0,
        "cublaslt_autotuned": 180.0,
        "slow": 200.0,
        "quick": 160.0,
    }
    rows = [{**place, "name": n, "cold_us": t, "replay_us": t + 1} for n, t in times.items()]
    cold, replay = kernels.summarize_time(rows, best=1).splitlines()
    assert "autotuned 180.0 us, 764 TFLOP/s; quick 160.0 (1.125)" in cold
    assert "slow" not in cold
    assert "replay: empty 3.0" in replay

"""`benchmarks/hgemm_headroom.py`: classes of shapes, resumption, its page and its messages; a script stands for the program on the GPU."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
HEADER = {
    "device": "NVIDIA H200", "sm_count": 132, "l2_bytes": 60 << 20, "driver": 13000, "runtime": 13000, "cublas": 130000,
    "cublaslt": 130000, "eviction_us": 60.0, "input_mean": 0.0, "input_std": 1.0,
}  # fmt: skip
# Answers like the program's. It ends at 64×64×128 as a fault of the device would end it.
STANDIN = f"""#!{sys.executable}
import json, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_hgemm_headroom import HEADER, make_times
print(json.dumps(HEADER), flush=True)
for line in sys.stdin:
    m, n, k = map(int, line.split())
    if (m, n, k) == (64, 64, 128):
        print('{{"error": "cudaStreamSynchronize(stream): an illegal memory access"}}', flush=True)
        sys.exit(1)
    print(json.dumps({{"m": m, "n": n, "k": k, **make_times(10.0)}}), flush=True)
"""


def make_times(autotuned: float, **changes: Any) -> dict[str, Any]:
    """The part of a row that the program measures: the heuristic takes a quarter more, cuBLAS a half."""

    def stretch(by: float) -> dict[str, list[float]]:
        us = autotuned * by
        return {"cold": [us, us * 0.9, us * 1.1, 20], "graph": [us / 2, us * 0.45, us * 0.55, 20]}

    algorithm = {"rank": 1, "id": 66, "tile": 20, "stages": 1, "split_k": 1, "reduction": 0, "swizzle": 0, "custom": 0, "cluster": 0}  # fmt: skip
    return {
        "answers": 12, "refused": 1, "nodes": 100, "rotated_bytes": 1 << 20, "empty": {"cold": [2.0, 1.9, 2.1, 20], "graph": [1.0, 0.9, 1.1, 20]},
        "cublas": stretch(1.5), "heuristic": stretch(1.25), "autotuned": stretch(1.0), "heuristic_algorithm": {**algorithm, "rank": 0},
        "cold_algorithm": algorithm, "graph_algorithm": {**algorithm, "split_k": 4, "reduction": 4}, "heuristic_difference": 1e-6,
        "cold_difference": 0.0, "graph_difference": 2.8e-4, "seconds": 0.1, **changes,
    }  # fmt: skip


@pytest.fixture
def shapes(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("hgemm_shapes")


@pytest.fixture
def headroom(shapes: ModuleType) -> ModuleType:
    return importlib.import_module("hgemm_headroom")


@pytest.fixture
def page(shapes: ModuleType) -> ModuleType:
    return importlib.import_module("hgemm_headroom_page")


@pytest.fixture
def standin(headroom: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The script in the place of the program, and a grid of four shapes, one of them fatal."""
    program = tmp_path / "standin"
    program.write_text(STANDIN)
    program.chmod(0o755)
    grid = [headroom.Shape(64, 64, k) for k in (64, 128, 256, 512)]
    monkeypatch.setattr(headroom, "build_program", lambda folder: program)
    monkeypatch.setattr(headroom, "interleave_classes", lambda: grid)
    return program


def run(headroom: ModuleType, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["hgemm_headroom.py", *words])
    return int(headroom.main())


# ---------------------------------------------------------------- shapes


def test_classes_hold_as_many_shapes_as_published(shapes: ModuleType) -> None:
    counts = Counter(map(shapes.classify, shapes.list_grid()))
    assert [counts[name] for name in shapes.CLASSES] == [292, 178, 144, 68, 89, 229]


def test_the_floors_of_all_shapes_sum_to_a_quarter_of_a_second(shapes: ModuleType) -> None:
    assert sum(map(shapes.H200_RATES.floor_us, shapes.list_grid())) == pytest.approx(0.233e6, rel=0.005)


@pytest.mark.parametrize("count", [50, 200, 700])
def test_the_first_shapes_cover_all_classes_in_proportion(shapes: ModuleType, count: int) -> None:
    order = shapes.interleave_classes()
    assert sorted(map(str, order)) == sorted(map(str, shapes.list_grid()))
    whole, part = Counter(map(shapes.classify, order)), Counter(map(shapes.classify, order[:count]))
    for name in shapes.CLASSES:
        assert part[name] == pytest.approx(whole[name] * count / 1000, abs=1)


# ---------------------------------------------------------------- page


def test_the_page_compares_with_the_floor_and_the_heuristic(page: ModuleType, shapes: ModuleType) -> None:
    long, tiny = shapes.Shape(4096, 4096, 4096), shapes.Shape(64, 64, 64)
    rows = [{"m": s.m, "n": s.n, "k": s.k, **make_times(us)} for s, us in ((long, 200.0), (tiny, 4.0))]
    settings = {"layout": "nn", "reduction": "any", "workspace_mib": 64, "algorithms": 32, "measure_ms": 10.0}
    text = page.make_page({**HEADER, **settings}, rows, shapes.H200_RATES)
    cold, graph = text.split("## Graph")
    ratio = 200 / (long.flops / 790e6)
    line = next(t for t in cold.splitlines() if t.startswith(f"| {shapes.LONG}"))
    assert "| 1 of 229 | 2.00 µs | 1.500 [1.227, 1.833] | 1.250 [1.023, 1.528] | 1.250 |" in line
    assert f"| {ratio:.3f} [{ratio * 0.9:.3f}, {ratio * 1.1:.3f}] | {ratio:.3f} |" in line
    assert "| 20.0% |" in line
    assert f"| {shapes.TINY} | 1 of 292 | 2.00 µs |" in cold
    assert "| 2.000 [1.800, 2.200] |" in cold  # over the empty kernel, which takes longer than the floor
    assert f"| {shapes.MEDIUM} | 0 of 89 | — |" in cold
    assert "2 winners split K, 2 round partial sums to fp16" in graph
    assert "790 TFLOP/s and bytes over 4.3 TB/s" in text
    assert "2 of 1000 shapes were timed, 0 faults" in text


def test_long_products_decide_the_mean_by_flop(page: ModuleType, shapes: ModuleType) -> None:
    rows = [{"m": 64, "n": 64, "k": 64}, {"m": 8192, "n": 8192, "k": 8192}]
    assert page.weigh_by_flops(rows, [(9.0, 8.0, 10.0), (1.0, 1.0, 1.0)]) == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("difference", [None, 6e-4])
def test_a_result_that_is_not_cublas_s_is_a_fault(page: ModuleType, difference: float | None) -> None:
    row = {"m": 64, "n": 64, "k": 64, **make_times(4.0, cold_difference=difference)}
    assert page.find_faults(row) == [f"cold difference from cuBLAS is {difference}"]


# ---------------------------------------------------------------- measuring


def test_a_run_goes_on_where_it_was_stopped_and_past_a_shape_that_ends_the_program(
    headroom: ModuleType, standin: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    out = tmp_path / "new folder" / "headroom"
    rows = out.with_suffix(".jsonl")
    assert run(headroom, monkeypatch, "--out", str(out)) == 1  # one shape has no times
    lines = [json.loads(line) for line in rows.read_text().splitlines()]
    assert [line.get("k") for line in lines] == [None, 64, 128, None, 256, 512]
    assert "an illegal memory access" in lines[2]["error"]
    assert "64×64×128: cudaStreamSynchronize" in out.with_suffix(".md").read_text()
    rows.write_text("\n".join(map(json.dumps, lines[:3])) + '\n{"m": 64, "n"')  # as a kill leaves it
    run(headroom, monkeypatch, "--out", str(out))
    again = [json.loads(line) for line in rows.read_text().splitlines() if line.endswith("}")]
    assert [line.get("k") for line in again] == [None, 64, 128, None, 256, 512]


def test_rows_of_another_device_are_not_mixed(
    headroom: ModuleType, standin: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    settings = {"layout": "nn", "reduction": "any", "workspace_mib": 64, "algorithms": 32, "measure_ms": 10.0}
    (tmp_path / "old.jsonl").write_text(
        json.dumps({**HEADER, "device": "NVIDIA H100 80GB HBM3", **settings}) + "\n"
    )
    assert run(headroom, monkeypatch, "--out", str(tmp_path / "old")) == 2
    assert "have device NVIDIA H100 80GB HBM3, not NVIDIA H200" in capsys.readouterr().err


def test_errors_over_the_limit_fail_the_check(headroom: ModuleType) -> None:
    calls = [
        {"call": "cublas", "may_round_partial_sums": True, "error": 4e-4},
        {"call": "cublaslt 0", "may_round_partial_sums": False, "error": 2.1e-4},
        {"call": "cublaslt 1", "may_round_partial_sums": False, "error": 4e-4},
        {"call": "cublaslt 2", "may_round_partial_sums": False, "error": None},
    ]
    faults = headroom.judge_errors({"errors": calls})
    assert [fault.split(":")[0] for fault in faults] == ["cublaslt 1", "cublaslt 2"]


# ---------------------------------------------------------------- what may be missing


def test_a_missing_compiler_is_one_line(tmp_path: Path) -> None:
    script, out = BENCHMARKS / "hgemm_headroom.py", tmp_path / "headroom"
    completed = subprocess.run(
        [sys.executable, str(script), "--out", str(out)],
        env={"PATH": "/usr/bin", "PYTHONPATH": ":".join(sys.path), "CUDACXX": "no-nvcc"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert completed.returncode == 3
    assert completed.stderr.splitlines() == [
        "error: no CUDA compiler: CUDACXX is 'no-nvcc', which is no executable"
    ]


def test_a_missing_gpu_is_one_line(
    headroom: ModuleType, standin: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    standin.write_text(
        f'#!{sys.executable}\nprint(\'{{"error": "cudaSetDevice(0): no CUDA-capable device is detected"}}\')\n'
    )
    assert run(headroom, monkeypatch, "--out", str(tmp_path / "headroom")) == 3
    errors = capsys.readouterr().err.splitlines()
    assert errors == [
        "error: no product can be timed here: cudaSetDevice(0): no CUDA-capable device is detected"
    ]


def test_cublas_of_a_python_package_is_used_and_a_missing_one_is_one_line(
    shapes: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = importlib.import_module("hgemm_program")
    tools = program.Toolkit("nvcc", "nvcc 13.0", tmp_path / "include", tmp_path / "lib", None)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(program.ToolchainError, match="no cuBLAS beside nvcc nvcc, nor in Python's packages"):
        program.find_cublas(tools)
    package = tmp_path / "nvidia" / "cu13"
    for file in ("include/cublasLt.h", "lib/libcublas.so.13", "lib/libcublasLt.so.13"):
        (package / file).parent.mkdir(parents=True, exist_ok=True)
        (package / file).touch()
    words = program.find_cublas(tools)
    assert {"-l:libcublas.so.13", "-l:libcublasLt.so.13", f"-L{package}/lib", f"{package}/include"} <= set(
        words
    )

"""Hopper GEMM kernels: layouts and schedules as integers, whole kernels on emulated hardware; with nvcc, that they build."""

from __future__ import annotations

import ctypes
import itertools
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hopper_bench import HARDWARE, SOURCES, HopperBench

from warpsmith.kernels.gemm.cuda.hopper.hopper_sources import KERNELS as KERNEL_FILES
from warpsmith.kernels.gemm.cuda.hopper.hopper_sources import paste_kernel

SHAPES = [(256, 128, 192), (264, 136, 136), (8, 200, 72), (520, 328, 328)]
DEEP = [(64, 64, 1024), (264, 136, 136)]
FEW = [(128, 128, 192), (72, 200, 72)]
Launch = tuple[int, int, int, int]  # blocks, group, along_n, parts

KERNELS: dict[str, tuple[dict[str, int], Launch]] = {
    "cooperative, B transposed": ({}, (3, 2, 0, 1)),
    "MN-major B with a panel that is not full": ({"BT": 0, "BN": 208, "STAGES": 4}, (2, 1, 1, 1)),
    "MN-major B in narrow panels": ({"BT": 0, "BN": 160, "PANEL": 32, "PINGPONG": 1, "CM": 2}, (4, 2, 1, 1)),
    "deep stages": ({"BK": 128, "BT": 0, "STAGES": 2}, (2, 1, 1, 1)),
    "multicast both ways": ({"CM": 2, "CN": 2, "BT": 0}, (8, 2, 1, 1)),
    "multicast of narrow tiles in larger clusters": ({"CM": 4, "CN": 1, "BN": 96}, (8, 2, 0, 1)),
    "ping-pong": ({"BM": 64, "PINGPONG": 1}, (3, 2, 1, 1)),
    "results staged one box at a time": ({"BOXES": 1, "BN": 128}, (2, 1, 1, 1)),
    "tall tiles, results staged in fewer slots than boxes": ({"BM": 256, "BN": 96, "BOXES": 2}, (2, 1, 1, 1)),
    "one warpgroup, bf16": ({"CONSUMERS": 1, "BM": 64, "BF16": 1}, (4, 1, 1, 1)),
    "one warpgroup, multicast both ways": ({"CONSUMERS": 1, "BM": 64, "BN": 128, "CM": 2, "CN": 2}, (8, 2, 0, 1)),
    "rows shared by four blocks": ({"CN": 4, "BN": 64}, (8, 1, 0, 1)),
    "swapped factors": ({"SWAP": 1, "BT": 0, "BN": 32}, (2, 1, 1, 1)),
    "swapped factors, multicast, from registers": ({"SWAP": 1, "BN": 48, "CN": 2, "TMA_STORE": 0}, (4, 1, 1, 1)),
    "float32 results with an epilogue": ({"FLOAT": 1, "TMA_STORE": 0, "BN": 112, "EPILOGUE": 1}, (4, 1, 1, 1)),
    "epilogue before TMA stores": ({"EPILOGUE": 1}, (4, 1, 1, 1)),
    "epilogue of rows": ({"EPILOGUE": 2, "TMA_STORE": 0, "BN": 192, "STAGES": 2}, (2, 2, 0, 1)),
    "epilogue of rows, ping-pong, row-major B": ({"EPILOGUE": 2, "TMA_STORE": 0, "BT": 0, "PINGPONG": 1, "BF16": 1}, (3, 2, 0, 1)),
}  # fmt: skip
SPLIT: dict[str, tuple[dict[str, int], Launch]] = {
    "semaphore": ({"SPLIT": 1, "BN": 128}, (5, 1, 1, 3)),
    "semaphore, ping-pong, multicast": ({"SPLIT": 1, "PINGPONG": 1, "CM": 2}, (6, 1, 1, 4)),
    "DSMEM": ({"SPLIT": 2, "TMA_STORE": 0, "BN": 128}, (0, 1, 1, 4)),
    "DSMEM, swapped factors": ({"SPLIT": 2, "TMA_STORE": 0, "BN": 32, "SWAP": 1, "BT": 0}, (0, 1, 1, 3)),
}
SMALL: dict[str, tuple[dict[str, int], Launch, list[tuple[int, int, int]]]] = {
    "row-major B, an epilogue": ({"BM": 64, "BT": 0, "EPILOGUE": 1}, (0, 1, 1, 1), FEW),
    "warps and blocks along K, bf16": ({"BM": 32, "WK": 2, "SPLIT": 1, "BF16": 1}, (0, 1, 1, 3), FEW),
    "any sizes": (
        {"BM": 64, "BT": 0, "VA": 1, "VB": 1, "WK": 2, "SPLIT": 1, "BK": 32}, (0, 1, 1, 3), [(77, 93, 51)],
    ),
    "one warp of results": (
        {"BM": 16, "BN": 16, "WM": 1, "WN": 1, "WK": 4, "VA": 2, "VB": 2}, (0, 1, 1, 1), [(77, 94, 54)],
    ),
}  # fmt: skip
K2 = "gemm_tma_wgmma.cuh"
UNITS = Path(__file__).resolve().parents[3] / "benchmarks/hgemm"
COMPILING = [
    "nvcc",
    "-std=c++17",
    "-O3",
    "-gencode=arch=compute_90a,code=sm_90a",
    f"-I{SOURCES}",
    f"-I{UNITS}",
]
WGMMA = {
    "BM": 128, "BN": 256, "BK": 64, "STAGES": 4, "CONSUMERS": 2, "PINGPONG": 0, "PRODUCER_WARPS": 4, "BLOCKS_PER_SM": 1, "CM": 1, "CN": 1,
    "SWAP": 0, "BT": 0, "PANEL": 64, "SPLIT": 0, "TMA_STORE": 1, "BOXES": 0, "LEFT_L2": 0, "RIGHT_L2": 0,
}  # fmt: skip
# What is left out of a kernel, with the definitions under which it shows.
FAULTS: dict[str, tuple[tuple[str, str, str], dict[str, int]]] = {
    "a stage is filled before it was read": (
        (K2, "mbarrier_wait(shared.empty + ring.stage, ring.phase ^ 1);", ""), {},
    ),
    "the last stage of a tile is not given back": ((K2, "if (count > 0) release(previous);", ""), {}),
    "staged results are overwritten": ((K2, "if (leader) tma_store_wait_read<SLOTS - 2>();  // the next box's slot", ";"), {"BOXES": 2, "BN": 256}),
    "the other block of the cluster is not told": (
        (K2, "const bool shares = lane % C::CLUSTER_M == down() || lane / C::CLUSTER_M == over();", "const bool shares = lane == rank;"),
        {"CM": 2},
    ),
    "a warpgroup loses its place in the ring": ((K2, "ring.advance(w.slices.count);", ""), {"PINGPONG": 1}),
    "sums are read before they are there": (
        (K2, "        cluster_sync();\n        add_cluster(w);", "        add_cluster(w);\n        cluster_sync();"),
        {"SPLIT": 2, "TMA_STORE": 0},
    ),
    "a row's neighbours are read before they are there": (
        ("row_staging.cuh", "      __syncwarp();\n#pragma unroll 1", "#pragma unroll 1"), {"EPILOGUE": 2, "TMA_STORE": 0},
    ),
    "a K step is off by one chunk": (("smem_layout.cuh", "step % 4 * 32", "step % 4 * 16"), {}),
}  # fmt: skip


def define(definitions: dict[str, int]) -> list[str]:
    return [f"-DG_{name}={value}" for name, value in definitions.items()]


@pytest.fixture(scope="session")
def hopper(builds: Path) -> HopperBench:
    return HopperBench(builds / "hopper")


@pytest.fixture(scope="session")
def integers(hopper: HopperBench) -> ctypes.CDLL:
    library = hopper.integers()
    for name in ("descriptor", "k_major_descriptor", "mn_major_descriptor", "mn_major_32_descriptor"):
        getattr(library, name).restype = ctypes.c_uint64
    return library


def check_errors(
    errors: list[float] | str, shapes: list[tuple[int, int, int]], definitions: dict[str, int]
) -> None:
    """Rounding to fp16 makes 2.1e-4, to bf16 1.7e-3."""
    assert isinstance(errors, list), errors
    assert len(errors) == len(shapes)
    assert max(errors) < (1e-6 if definitions.get("FLOAT") else 2e-3 if definitions.get("BF16") else 2.5e-4)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 5), (7, 4), (16, 9), (1, 33), (13, 1)])
def test_raster_covers_each_tile_once(integers: ctypes.CDLL, rows: int, columns: int) -> None:
    for group, along_n in itertools.product(range(1, 20), (0, 1)):
        where = [
            tuple(f(i, rows, columns, group, along_n) for f in (integers.raster_row, integers.raster_column))
            for i in range(rows * columns)
        ]
        assert sorted(where) == sorted(itertools.product(range(rows), range(columns)))


def test_raster_goes_down_a_group_then_over(integers: ctypes.CDLL) -> None:
    where = [(integers.raster_row(i, 4, 3, 2, 0), integers.raster_column(i, 4, 3, 2, 0)) for i in range(7)]
    assert where == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 0)]


def test_parts_of_k_are_balanced_and_adjacent(integers: ctypes.CDLL) -> None:
    for slices, parts in itertools.product((1, 2, 7, 64, 65), (1, 2, 3, 8, 16)):
        counts = [integers.slices_count(slices, parts, p) for p in range(parts)]
        firsts = [integers.slices_first(slices, parts, p) for p in range(parts)]
        assert sum(counts) == slices
        assert max(counts) - min(counts) <= 1
        assert firsts == [sum(counts[:p]) for p in range(parts)]


def test_ring_position_is_the_same_in_steps_and_at_once(integers: ctypes.CDLL) -> None:
    for first, uses in itertools.product(range(12), range(40)):
        assert integers.ring_at_once(first, uses) == integers.ring_by_steps(first + uses)
    assert [integers.ring_by_steps(i) for i in (4, 5, 9, 10)] == [4, 0x100, 0x104, 0]


def test_swizzles_are_those_of_the_isa(integers: ctypes.CDLL) -> None:
    """128 bytes: chunk XOR row modulo 8. 64 bytes: chunk XOR half the row modulo 4. 32 bytes: chunk XOR a quarter of it modulo 2."""
    for span, part in ((128, 1), (64, 2), (32, 4)):
        function = getattr(integers, f"swizzle_{span}")
        chunks = span // 16
        for row, chunk, byte in itertools.product(range(16), range(chunks), (0, 7, 15)):
            expected = row * span + (chunk ^ row // part % chunks) * 16 + byte
            assert function(row * span + chunk * 16 + byte) == expected
    assert integers.swizzle_128(128 + 16) == 128
    assert integers.swizzle_128(7 * 128) == 7 * 128 + 112


def test_eight_rows_of_a_column_of_chunks_lie_in_different_banks(integers: ctypes.CDLL) -> None:
    for span in (128, 64, 32):
        function = getattr(integers, f"swizzle_{span}")
        for chunk in range(span // 16):
            assert len({function(row * span + chunk * 16) % 128 for row in range(8)}) == 8


def test_panels_hold_each_element_once(integers: ctypes.CDLL) -> None:
    for width, columns in ((64, 192), (16, 48)):
        function = getattr(integers, f"panel_offset_{width}")
        offsets = [function(32, r, c) for r in range(32) for c in range(columns)]
        assert sorted(offsets) == list(range(0, 32 * columns * 2, 2))


def test_descriptors_encode_addresses_strides_and_swizzle(integers: ctypes.CDLL) -> None:
    """By hand from the PTX ISA: address, leading and stride offsets in units of 16 bytes from bits 0, 16, 32; mode from bit 62."""
    assert integers.descriptor(0x12340, 0x2000, 0x400, 128) == 0x1234 | 0x200 << 16 | 0x40 << 32 | 1 << 62
    assert integers.descriptor(0x80000 | 0x400, 16, 512, 64) == 0x40 | 1 << 16 | 0x20 << 32 | 2 << 62
    assert integers.descriptor(0, 0, 256, 32) == 0x10 << 32 | 3 << 62
    # K-major: 8 rows of 128 bytes to the next 8.
    assert integers.k_major_descriptor(0x400) == 0x40 | 1 << 16 | 0x40 << 32 | 1 << 62
    # MN-major: 8 terms to the next 8 are 8 rows of a panel; the next panel begins 64 rows of 128 bytes on.
    assert integers.mn_major_descriptor(0x400) == 0x40 | 0x200 << 16 | 0x40 << 32 | 1 << 62
    assert integers.mn_major_32_descriptor(0x400) == 0x40 | 0x100 << 16 | 0x20 << 32 | 2 << 62


def test_operands_are_found_by_rows_and_k_steps(integers: ctypes.CDLL) -> None:
    assert [integers.k_major_offset(0, s) for s in (0, 1, 3, 4, 5)] == [0, 32, 96, 128 * 128, 128 * 128 + 32]
    assert integers.k_major_offset(64, 1) == 64 * 128 + 32
    assert [integers.mn_major_offset(0, s) for s in (0, 1, 3)] == [0, 2048, 6144]
    assert integers.mn_major_offset(128, 2) == 2 * 64 * 128 + 4096


def test_wave_filling_choice_is_the_best_of_all_widths(integers: ctypes.CDLL) -> None:
    assert integers.permille(4096, 4096, 128, 256, 132) == 969  # 512 tiles in 4 waves of 132
    assert integers.permille(100, 100, 128, 128, 1) == 610
    for m, n in ((4096, 4096), (8192, 1024), (2048, 12288), (640, 3000)):
        chosen = integers.filling(m, n, 128, 132, 128, 256)
        best = max(integers.permille(m, n, 128, width, 132) for width in range(128, 257, 16))
        assert integers.permille(m, n, 128, chosen, 132) == best
    assert integers.filling(256, 256, 128, 4, 64, 128) == 128  # 2 x 2 tiles: full


@pytest.mark.parametrize("name", KERNELS)
def test_kernel_is_right_on_emulated_hardware(hopper: HopperBench, name: str) -> None:
    definitions, launch = KERNELS[name]
    check_errors(hopper.run(definitions, launch, 1, SHAPES), SHAPES, definitions)


@pytest.mark.parametrize("name", SPLIT)
def test_split_k_is_right_on_emulated_hardware(hopper: HopperBench, name: str) -> None:
    definitions, launch = SPLIT[name]
    check_errors(hopper.run(definitions, launch, 2, DEEP), DEEP, definitions)


@pytest.mark.parametrize("name", SMALL)
def test_small_kernel_is_right_on_emulated_hardware(hopper: HopperBench, name: str) -> None:
    definitions, launch, shapes = SMALL[name]
    check_errors(hopper.run({"KIND": 2, **definitions}, launch, 3, shapes), shapes, definitions)


@pytest.mark.parametrize("name", FAULTS)
def test_emulated_hardware_shows_a_missing_step(hopper: HopperBench, name: str) -> None:
    edit, definitions = FAULTS[name]
    launch = (4 if "CM" in definitions else 1, 2, 0, 2 if "SPLIT" in definitions else 1)
    errors = hopper.run(definitions, launch, 1, [(520, 136, 520)], edit)
    assert isinstance(errors, str) or not errors[0] < 1e-3


def test_hardware_headers_are_those_that_hold_instructions() -> None:
    """The emulator replaces each header with inline PTX or intrinsics, and no other."""
    words = ("asm", "__cvta")
    assert {p.stem for p in SOURCES.glob("*.cuh") if any(w in p.read_text() for w in words)} == set(HARDWARE)


def test_pasted_kernels_include_nothing_of_ours_and_hold_each_file_once() -> None:
    for kernel in KERNEL_FILES:
        text = paste_kernel(kernel)
        assert '#include "' not in text
        assert text.count("uint32_t shared_address(") == text.count("TilePlace raster(") == 1
    assert paste_kernel(KERNEL_FILES[0]).index("void mbarrier_init(") < paste_kernel(KERNEL_FILES[0]).index(
        "struct GemmTmaWgmma"
    )


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_pasted_kernels_build(tmp_path: Path) -> None:
    for number, kernel in enumerate(KERNEL_FILES):
        (tmp_path / f"unit{number}.cu").write_text(paste_kernel(kernel))
        command = [
            "nvcc",
            "-std=c++17",
            "-cubin",
            "-gencode=arch=compute_90a,code=sm_90a",
            "-o",
            str(tmp_path / "unit.cubin"),
        ]
        done = subprocess.run(
            [*command, str(tmp_path / f"unit{number}.cu")], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_no_slice_of_k_costs_a_fence_of_the_device(tmp_path: Path) -> None:
    """Arrivals and waits at the scope of the cluster cost one each, and made multicast slower than loading twice."""
    command = [*COMPILING, "-ptx", *define(WGMMA | {"CM": 2}), "-o", str(tmp_path / "unit.ptx")]
    done = subprocess.run(
        [*command, str(UNITS / "tma_wgmma_unit.cu")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    barriers = re.findall(r"\bmbarrier\.[\w.:]+", (tmp_path / "unit.ptx").read_text())
    assert {"mbarrier.arrive.shared::cluster.b64", "mbarrier.try_wait.parity.shared::cta.b64"} <= set(
        barriers
    )
    assert [b for b in barriers if ".cluster." in b.replace("shared::cluster", "")] == []


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
@pytest.mark.parametrize(("unit", "definitions"), [
    ("tma_wgmma_unit.cu", WGMMA | {"BN": 208, "CM": 2, "SPLIT": 1}),
    ("mma_sync_unit.cu", {"BM": 64, "BN": 64, "BK": 64, "STAGES": 4, "WM": 2, "WN": 2, "WK": 1, "VA": 8, "VB": 8, "BT": 0,
                          "SPLIT": 1, "BLOCKS_PER_SM": 1}),
])  # fmt: skip
def test_kernel_builds_without_spills(unit: str, definitions: dict[str, int], tmp_path: Path) -> None:
    command = [
        *COMPILING, "-cubin", "-Xptxas", "-v,--warn-on-spills", *define(definitions), "-o", str(tmp_path / "unit.cubin"), str(UNITS / unit),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr
    assert " 0 bytes spill stores, 0 bytes spill loads" in done.stdout + done.stderr

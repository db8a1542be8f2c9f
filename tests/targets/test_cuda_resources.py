"""The assembler's report, as CUDA 12 and 13 write it → one record a kernel."""

from __future__ import annotations

import pytest

from warpsmith.targets.cuda_resources import parse, plain_name

REPORT = """\
unit.cu(3): warning #177-D: variable "a" was declared but never referenced
ptxas info    : 4 bytes gmem, 100 bytes cmem[3]
ptxas info    : Compiling entry function '_Z3addILi32EEvPKfPf' for 'sm_90a'
ptxas info    : Function properties for _Z3addILi32EEvPKfPf
    216 bytes stack frame, 212 bytes spill stores, 340 bytes spill loads
ptxas info    : Used 255 registers, used 3 barriers, 216 bytes cumulative stack size, 1152 bytes smem, 400 bytes cmem[0], 8 bytes cmem[2]
ptxas info    : Compile time = 16.800 ms
ptxas info    : Function properties for _Z6helperf
    8 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads
ptxas info    : Compiling entry function '_ZN2my3twoEPf' for 'sm_80'
ptxas info    : Function properties for _ZN2my3twoEPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers, used 0 barriers
"""


def test_every_kernel_has_its_own_numbers() -> None:
    add, two = parse(REPORT)
    assert (add.name, add.symbol, add.arch) == ("add", "_Z3addILi32EEvPKfPf", "sm_90a")
    assert (add.registers, add.stack_bytes, add.spill_store_bytes, add.spill_load_bytes) == (
        255,
        216,
        212,
        340,
    )
    assert (add.shared_bytes, add.constant_bytes, add.barriers) == (1152, 408, 3)
    assert (two.name, two.arch, two.registers, two.stack_bytes, two.spill_load_bytes) == (
        "two",
        "sm_80",
        12,
        0,
        0,
    )
    assert (two.shared_bytes, two.barriers) == (0, 0)


def test_older_lines_without_barriers() -> None:
    old = "ptxas info    : Compiling entry function 'k' for 'sm_80'\nptxas info    : Used 40 registers, 352 bytes cmem[0]\n"
    (kernel,) = parse(old)
    assert (kernel.registers, kernel.constant_bytes, kernel.barriers) == (40, 352, 0)


def test_nothing_of_a_failed_build() -> None:
    assert parse("ptxas error   : Entry function '_Z3twoPf' uses too much shared data\n") == ()


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_Z7softmaxPKfPf", "softmax"),
        ("_ZL5chainPf", "chain"),
        ("_ZN12_GLOBAL__N_15innerILi4EEEvPf", "inner"),
        ("_ZN2ws4impl3addEPf", "add"),
        ("plain_c", "plain_c"),
        ("_Z", "_Z"),
    ],
)
def test_plain_names(symbol: str, name: str) -> None:
    assert plain_name(symbol) == name

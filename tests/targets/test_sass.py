"""The disassembler's text, in the forms that it has on Ampere, Hopper and Blackwell → counts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from warpsmith.targets.sass import MatrixInstruction, disassemble, parse

HEADER = """
Fatbin elf code:
================
arch = sm_90a
code version = [1,8]
host = linux
compile_size = 64bit
compressed

	code for sm_90a
"""
GEMM = """\
		Function : _Z4gemmILi128EEvPK13__nv_bfloat16S2_Pf
	.headerflags	@"EF_CUDA_TEXMODE_UNIFIED EF_CUDA_64BIT_ADDRESS EF_CUDA_ACCELERATORS EF_CUDA_SM90 EF_CUDA_VIRTUAL_SM(EF_CUDA_SM90)"
        /*0000*/                   LDC R1, c[0x0][0x28] ;                                                  /* 0x00000a00ff017b82 */
                                                                                                           /* 0x000fe20000000800 */
        /*0010*/                   S2R R0, SR_TID.X ;                                                      /* 0x0000000000007919 */
                                                                                                           /* 0x000e620000002100 */
        /*0020*/                   ULDC.64 UR4, c[0x0][0x208] ;                                            /* 0x0000820000047ab9 */
                                                                                                           /* 0x000fe20000000a00 */
        /*0030*/              @!P0 LDG.E.128.CONSTANT R4, desc[UR4][R2.64] ;                               /* 0x0000000402048981 */
                                                                                                           /* 0x000ea8000c1e9d00 */
        /*0040*/                   LDG.E R8, desc[UR4][R2.64+0x10] ;                                       /* 0x0000100402087981 */
                                                                                                           /* 0x000ea8000c1e1900 */
        /*0050*/         @P1       LDGSTS.E.BYPASS.LTC128B.128 [R11], desc[UR4][R2.64] ;                   /* 0x0000000002000fae */
                                                                                                           /* 0x000fe2000b981c44 */
        /*0060*/                   LDSM.16.M88.4 R12, [R9] ;                                               /* 0x00000000090c783b */
                                                                                                           /* 0x000e280000000200 */
        /*0070*/                   LDS.128 R16, [R10] ;                                                    /* 0x000000000a107984 */
                                                                                                           /* 0x000e280000000c00 */
        /*0080*/                   LDS R20, [R10+0x40] ;                                                   /* 0x000040000a147984 */
                                                                                                           /* 0x000e280000000800 */
        /*0090*/                   HMMA.16816.F32.BF16 R20, R4, R16, R20 ;                                 /* 0x000000100414723c */
                                                                                                           /* 0x004fe20000041814 */
        /*00a0*/                   HMMA.16816.F32.BF16 R24, R4, R18, R24 ;                                 /* 0x000000120418723c */
                                                                                                           /* 0x000fe20000041818 */
        /*00b0*/                   HMMA.16816.F16 R28, R4, R16, R28 ;                                      /* 0x00000010041c723c */
                                                                                                           /* 0x000fe2000000081c */
        /*00c0*/                   STL.64 [R1+0x8], R6 ;                                                   /* 0x0000080601007387 */
                                                                                                           /* 0x0001e20000100a00 */
        /*00d0*/                   LDL R6, [R1+0x8] ;                                                      /* 0x0000080001067983 */
                                                                                                           /* 0x000ea20000100800 */
        /*00e0*/                   STG.E.128 desc[UR4][R2.64], R20 ;                                       /* 0x0000001402007986 */
                                                                                                           /* 0x004fe2000c101d04 */
        /*00f0*/                   CS2R R4, SR_CLOCKLO ;                                                   /* 0x0000000000047805 */
                                                                                                           /* 0x000fe20000015000 */
        /*0100*/                   EXIT ;                                                                  /* 0x000000000000794d */
                                                                                                           /* 0x000fea0003800000 */
        /*0110*/                   BRA 0x110;                                                              /* 0xfffffffc00fc7947 */
                                                                                                           /* 0x000fc0000383ffff */
		..........
"""
OTHER = """\
		Function : reduce
        /*0000*/                   IMAD.MOV.U32 R1, RZ, RZ, c[0x0][0x28] ;   /* 0x00000a00ff017624 */
        /*0010*/         @!UP0     UIADD3 UR4, UR4, 0x1, URZ ;               /* 0x0000000104048890 */
        /*0020*/                   EXIT ;                                    /* 0x000000000000794d */
"""


def test_mix_loads_and_local_traffic() -> None:
    gemm, other = parse(HEADER + GEMM + OTHER)
    assert (gemm.name, other.name, other.symbol) == ("gemm", "reduce", "reduce")
    assert (gemm.instructions, other.instructions) == (18, 3)
    assert next(iter(gemm.mix.items())) == ("HMMA", 3)
    assert gemm.mix["EXIT"] == 1
    assert other.mix == {"IMAD": 1, "UIADD3": 1, "EXIT": 1}
    assert (gemm.global_loads, gemm.wide_global_loads) == (3, 2)
    assert gemm.wide_share == pytest.approx(2 / 3)
    assert (gemm.shared_loads, gemm.wide_shared_loads) == (3, 2)
    assert (gemm.local_loads, gemm.local_stores, gemm.clocks) == (1, 1, 1)
    assert (other.matrix, other.wide_share, other.clocks) == ((), 0.0, 0)


def test_half_precision_accumulators_are_told_apart() -> None:
    gemm = parse(GEMM)[0]
    assert gemm.matrix == (
        MatrixInstruction(opcode="HMMA.16816.F32.BF16", inputs="BF16", accumulator="F32", count=2),
        MatrixInstruction(opcode="HMMA.16816.F16", inputs="F16", accumulator="F16", count=1),
    )


@pytest.mark.parametrize(
    ("instruction", "inputs", "accumulator"),
    [
        ("HMMA.16816.F32 R4, R8, R12, R4", "F16", "F32"),
        ("HMMA.1688.F32.TF32 R4, R8, R12, R4", "TF32", "F32"),
        ("HMMA.1688.F16 R4, R8, R12, R4", "F16", "F16"),
        ("HGMMA.64x128x16.F32.BF16 R24, gdesc[UR8], R24, gsb0", "BF16", "F32"),
        ("HGMMA.64x256x8.F32.TF32 R24, gdesc[UR8], !UPT", "TF32", "F32"),
        ("HGMMA.64x64x16.F16 R24, R4, gdesc[UR8].tnspB, R24", "F16", "F16"),
        ("QGMMA.64x128x32.F32.E4M3.E5M2 R24, gdesc[UR8], R24", "E4M3·E5M2", "F32"),
        ("IGMMA.64x128x32.S8.S8 R24, gdesc[UR8], R24", "S8", "S32"),
        ("IMMA.16832.S8.S8.SAT R4, R8.ROW, R12.COL, R4", "S8", "S32"),
        ("DMMA.884 R4, R8, R10, R4", "F64", "F64"),
        ("UTCHMMA gdesc[UR4], gdesc[UR6], tmem[UR8], tmem[UR10], idesc[UR11], UP0", "F16", "F16"),
    ],
)
def test_matrix_instructions(instruction: str, inputs: str, accumulator: str) -> None:
    text = f"\t\tFunction : _Z1kv\n        /*0a90*/                   {instruction} ;   /* 0x00 */\n"
    (kernel,) = parse(text)
    assert [(m.inputs, m.accumulator, m.count) for m in kernel.matrix] == [(inputs, accumulator, 1)]


def test_not_available_says_why(tmp_path: Path) -> None:
    assert disassemble(tmp_path / "unit.so", None).reason == "cuobjdump is not installed"
    fake = tmp_path / "cuobjdump"
    fake.write_text("#!/bin/sh\necho 'cuobjdump fatal : no such file' >&2\nexit 1\n")
    fake.chmod(0o755)
    report = disassemble(tmp_path / "unit.so", str(fake))
    assert (report.available, report.reason) == (False, "cuobjdump fails: cuobjdump fatal : no such file")
    (tmp_path / "said").write_text(GEMM)
    fake.write_text(f"#!/bin/sh\ncat {tmp_path}/said\n")
    report = disassemble(tmp_path / "unit.so", str(fake))
    assert report.available
    assert [k.name for k in report.kernels] == ["gemm"]
    os.unlink(fake)
    assert "does not run" in disassemble(tmp_path / "unit.so", str(fake)).reason

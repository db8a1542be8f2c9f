"""Inline PTX: what kernels need passes, what hides or remembers does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.targets.inline_ptx import explain_refusal, find_refusals
from warpsmith.targets.source_rules import CUDA, CUDA_HEADERS
from warpsmith.targets.source_rules import find_refusals as source_refusals

HONEST = r"""
__device__ void f(float* d, unsigned* a, unsigned* b, unsigned s) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  asm("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(s));
  asm volatile("cp.async.commit_group;\n" ::: "memory");
  asm volatile("wgmma.fence.sync.aligned;\n\twgmma.commit_group.sync.aligned;");
  asm volatile("{\n"
      ".reg .pred P1;\n"
      "LAB_WAIT:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n"
      "@P1 bra DONE;\n"
      "bra LAB_WAIT;\n"
      "DONE:\n"
      "}\n" :: "r"(s), "r"(1));
  asm volatile("@!%p0 st.shared.u32 [%0], 0;" :: [where] "r"(g<2>(s)) : "memory", "cc");
  asm("mov.u32 %0, %%laneid; // lane\n" : "=r"(a[0]));
  asm(R"(griddepcontrol.wait;)");
}
"""


def test_honest_ptx_passes() -> None:
    assert list(find_refusals(HONEST)) == []
    assert source_refusals('#include "task.h"\n' + HONEST, CUDA) == ()


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('asm("mov.u32 %0, %%clock;" : "=r"(x));', "may not read %clock"),
        ('asm("mov.u64 %0, %%globaltimer;" : "=l"(x));', "%globaltimer"),
        ('asm("mov.u64 %0, %%gr" "idid;" : "=l"(x));', "%gridid"),
        ('asm(".global .u32 kept;");', "may not use '.global'"),
        ('asm("nop_is_not_ptx; }\\n.visible .global .u32 kept;\\n{");', "'nop_is_not_ptx'"),
        ('asm("add.u32 %0, %0, 1; }\\n.global .u32 kept; {" : "+r"(x));', "'.global'"),
        ('asm("call (%0), malloc, (%1);" : "=l"(p) : "l"(n));', "'call'"),
        ('asm("L: /* .reg */ .const .u32 a;");', "'.const'"),
        ('asm("syscall");', "'syscall'"),
        ('asm volatile(".byte 0x0f, 0x05");', "'.byte'"),
        ('asm(".pushsection .data; .popsection");', "'.pushsection'"),
        ('extern "C" int f(void) asm("system");', "'system'"),
        ('asm("\\x73yscall");', "one literal"),
        ('asm(NAME);', "one literal"),
        ('asm("mov.u32 %0, " REGISTER ";" : "=r"(x));', "one literal"),
        ('#define A asm\nA("syscall");', "one literal"),
        ('asm("%0" :: "C"(text));', "one literal"),
        ('asm("%0" :: CONSTRAINT(text));', "one literal"),
        ('asm goto("bra %l0;" :::: out);', "one literal"),
        ('asm(u8"syscall");', "one literal"),
        ('asm("mov.u32 a, b;" : "=r"(x)', "one literal"),
    ],
)  # fmt: skip
def test_refused(text: str, what: str) -> None:
    found = list(find_refusals(text))
    assert found, text
    assert what in found[0][1]


@given(st.text(max_size=200))
def test_any_text_is_read(text: str) -> None:
    explain_refusal(text)
    list(find_refusals(f'asm("{text}'))


@given(st.text(alphabet='as.m"():; %{}\\ntx', max_size=40))
def test_a_clock_is_found_behind_anything_that_can_be_read(noise: str) -> None:
    assert explain_refusal(f"{noise};mov.u32 a, %clock;")


@pytest.mark.parametrize(
    ("source", "rule", "line"),
    [
        ('#include "warpsmith_simd.h"\n', "include", 1),
        ("#include <cuda/std/atomic>\n", "include", 1),
        ("\nlong t = clock64();\n", "name", 2),
        ("clock_t t = cl\\\nock();\n", "name", 1),
        ("extern void __cudaRegisterFatBinary();\n", "name", 1),
        ("static int __device_stub__x;\n", "name", 1),
        ("namespace cuda { namespace std { __device__ int kept; } }\n", "name", 1),
        ("k<<<1, 1, 0, cudaStreamPerThread>>>();\n", "name", 1),
        ("#define JOIN(a, b) a ## b\n", "pasting", 1),
        ("#define JOIN(a, b) a %:%: b\n", "pasting", 1),
        ("int cl\\u006fck64();\n", "pasting", 1),
        ('#define MORE x), "C"(text\nasm("mov.u32 a, %0;" :: "r"(MORE));\n', "macro", 1),
        ("#define OPEN (\n", "macro", 1),
        ("__attribute__((constructor)) void f() {}\n", "construct", 1),
        ('\n/* " */ asm("mov.u32 %0, %%clock;"); // "\n', "asm", 2),
    ],
)
def test_cuda_sources_are_refused(source: str, rule: str, line: int) -> None:
    found = source_refusals(source, CUDA)
    assert [(d.message.split(":")[0], d.line) for d in found[:1]] == [(rule, line)], found


def test_macros_of_whole_expressions_are_free() -> None:
    source = '#define CP(d, s) asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(d), "l"(s))\n#define T (1 + (2))\n'
    assert source_refusals(source, CUDA) == ()


def test_names_in_comments_strings_and_longer_names_are_free() -> None:
    source = '// clock() and ##\nint my_clock = 3, clock_like; const char* s = "clock ## \\\\u";\n'
    assert source_refusals(source, CUDA) == ()
    assert "cuda_bf16.h" in CUDA_HEADERS

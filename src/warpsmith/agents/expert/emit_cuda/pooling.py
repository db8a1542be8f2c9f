"""Pooling windows on a GPU: a thread takes STRIP outputs below each other, so that what neighbouring windows share is read
once: each row of the image is combined across the window's width, then goes to every output whose window has it.

In: the windows of up to three dimensions. Out: one kernel, general in all shapes. `prologue0` brings an element of the
image, `epilogue` stores one of the result.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..emit.text import Writer
from ..families.pool_windows import Pool, Window
from .source import Launch

NO_WINDOW = Window(1, 1, 0, 1)

_KERNEL = """\
__device__ __forceinline__ float combine(float a, float b) { return MAXIMUM ? ws::max_nan(b, a) : a + b; }
// Elements of a window that an average counts along one dimension.
__device__ __forceinline__ float counted(int64_t o, int64_t size, int kernel, int stride, int padding) {
  const int64_t first = o * stride - padding, end = first + kernel;
  const int64_t least = PADDED ? first : first > 0 ? first : 0, most = PADDED ? size + padding : size;
  return (float)((end < most ? end : most) - least);
}

__global__ void __launch_bounds__(BLOCK) pool(Operands o) {
  const index_t task = (index_t)blockIdx.x * BLOCK + threadIdx.x;
  if (task >= TASKS) return;
  const index_t x = task % (index_t)OW, strip = task / (index_t)OW % (index_t)STRIPS;
  const index_t z = task / (index_t)(OW * STRIPS) % (index_t)OD, lead = task / (index_t)(OW * STRIPS * OD);
  int64_t at[RANK];
  leading(lead, at);
  float acc[STRIP];
#pragma unroll
  for (int s = 0; s < STRIP; s++) acc[s] = START;
  for (int d = 0; d < KD; d++) {
    const int64_t iz = (int64_t)z * SD - PD + d * LD;
    if (iz < 0 || iz >= ID) continue;
    if (SPACE > 2) at[RANK - (SPACE > 2 ? 3 : 1)] = iz;
#pragma unroll
    for (int r = 0; r < TALL; r++) {
      const int64_t iy = (int64_t)strip * STRIP * SH - PH + r;
      const bool there = iy >= 0 && iy < IH;
      if (SPACE > 1) at[RANK - (SPACE > 1 ? 2 : 1)] = iy;
      float taps[KW];  // all loads of a row, and of the rows of a strip, may be under way at once
#pragma unroll
      for (int w = 0; w < KW; w++) {
        const int64_t ix = (int64_t)x * SW - PW + w * LW;
        at[RANK - 1] = ix;
        taps[w] = there && ix >= 0 && ix < IW ? prologue0<1>(o, at).at[0] : START;
      }
      float line = START;
#pragma unroll
      for (int w = 0; w < KW; w++) line = combine(line, taps[w]);
#pragma unroll
      for (int s = 0; s < STRIP; s++) {
        const int k = r - s * SH;
        if (k >= 0 && k <= (KH - 1) * LH && k % LH == 0) acc[s] = combine(acc[s], line);
      }
    }
  }
  at[RANK - 1] = x;
  if (SPACE > 2) at[RANK - (SPACE > 2 ? 3 : 1)] = z;
#pragma unroll
  for (int s = 0; s < STRIP; s++) {
    const int64_t y = (int64_t)strip * STRIP + s;
    if (y >= OH) break;
    if (SPACE > 1) at[RANK - (SPACE > 1 ? 2 : 1)] = y;
    ws::Pack<float, 1> made = {{acc[s]}};
    if (!MAXIMUM)
      made.at[0] /= DIVISOR > 0 ? (float)DIVISOR
                                : counted(z, ID, KD, SD, PD) * counted(y, IH, KH, SH, PH) * counted(x, IW, KW, SW, PW);
    epilogue<1>(o, made, at);
  }
}
"""


def pool_kernels(top: Writer, pool: Pool, rank: int, sizes: Sequence[str]) -> tuple[list[Launch], str, str]:
    """`sizes`: of the dimensions of what is pooled, as C++. Writes the constants to `top`; see `CudaAnchored.kernels`."""
    space = len(pool.windows)
    padded = [NO_WINDOW] * (3 - space) + list(pool.windows)
    inner = ["1"] * (3 - space) + list(sizes[-space:])
    outer = ["1"] * (3 - space) + [f"out0_shape[{d}]" for d in range(rank - space, rank)]
    top.line(f"constexpr int RANK = {rank}, SPACE = {space};")
    for letter, window, size, made in zip("DHW", padded, inner, outer, strict=True):
        top.line(
            f"constexpr int K{letter} = {window.kernel}, S{letter} = {window.stride}, P{letter} = {window.padding}, "
            f"L{letter} = {window.dilation};  // kernel, stride, padding, dilation"
        )
        top.line(f"constexpr int64_t I{letter} = {size}, O{letter} = {made};")
    top.line(f"constexpr bool MAXIMUM = {str(pool.maximum).lower()}, PADDED = {str(pool.padded).lower()};")
    top.line(f"constexpr int64_t DIVISOR = {pool.divisor or 0};")
    top.line("constexpr float START = MAXIMUM ? -ws::infinity : 0.0f;")
    top.line(
        "constexpr int TALL = (STRIP - 1) * SH + (KH - 1) * LH + 1;  // rows of the image that a strip takes"
    )
    lead = " * ".join(f"out0_shape[{d}]" for d in range(rank - space)) or "1"
    top.line(
        f"constexpr int64_t STRIPS = ws::ceil_div(OH, (int64_t)STRIP), TASKS = {lead} * OD * STRIPS * OW;"
    )
    top.line("using index_t = ws::Int<TASKS + 1024>;")
    with top.block("__device__ __forceinline__ void leading(int64_t number, int64_t (&at)[RANK])"):
        for d in range(rank - space - 1, -1, -1):
            top.line(f"at[{d}] = number % out0_shape[{d}];")
            top.line(f"number /= out0_shape[{d}];")
    launch = Launch("pool", "ws::ceil_div(TASKS, (int64_t)BLOCK)", "BLOCK", struct=True)
    return [launch], _KERNEL, ""

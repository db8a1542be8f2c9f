"""A float32 product of few rows and a large right factor that lies along the sum, on Hopper's tensor cores: `product_wgmma`, but the
large factor is read once, as it is, and nothing of it goes through the workspace.

In: a product that `emit_cuda.product` has declared. Out: its kernels: `split` for the left factor alone, then `product`. There two
warpgroups read a slice of the right factor, a slice ahead, make halves of it at their place in shared memory, and two multiply, each slice
by itself: with all of a slice's products of one under way, the other one adds.
"""

from __future__ import annotations

from .product_wgmma import Roles, wgmma_kernels
from .source import Launch

_FEED = """\
    ws::registers_less<104>();
    constexpr int ITEMS = TILE * BK / 8 / 256;
    const int own = threadIdx.x - 256, octet = own % 8, line = own / 8;
    const unsigned char* const scales = images + IMAGES * IMAGE;
    unsigned number = blockIdx.x;
    Piece p;
    int s = 0;
    bool more = false;
    const auto seek = [&] {
      for (more = false; !more && number < (unsigned)WORK; number += more ? 0 : BLOCKS) p = piece(number), more = p.slices > 0;
    };
    const auto ask = [&](float (&x)[ITEMS][8]) {  // this thread's octets of slice s of p
      const int64_t k = ((int64_t)p.part * SHARE + s) * BK + 8 * octet;
#pragma unroll
      for (int i = 0; i < ITEMS; i++) {
        const int64_t n = p.n + 32 * i + line;
        const float* const at = o.{right} + (right_at(p.b, 0) + n * RIGHT_N + k);
#pragma unroll
        for (int e = 0; e < 8; e += RIGHT_VEC) {
          ws::Pack<float, RIGHT_VEC> some = {};
          if (n < N && k + e < K) some = ws::load_pack<RIGHT_VEC>(at + e);
#pragma unroll
          for (int v = 0; v < RIGHT_VEC; v++) x[i][e + v] = some.at[v];
        }
      }
    };
    const auto put = [&](const float (&x)[ITEMS][8], int64_t left) {
      unsigned char* const to = stages + stage * STAGE;
      ws::barrier_wait(empty + stage, phase ^ 1);
      if (own == 0) {
        ws::barrier_expect(full + stage, IMAGE + SCALES);
        ws::bulk_copy(to, images + left * IMAGE, IMAGE, full + stage);
        ws::bulk_copy(to + 2 * IMAGE, scales + left * SCALES, SCALES, full + stage);
      }
#pragma unroll
      for (int i = 0; i < ITEMS; i++)
        put_octet(x[i], to + IMAGE, 32 * i + line, octet, reinterpret_cast<float*>(to + 2 * IMAGE + SCALES));
      ws::shared_stored();
      ws::barrier_arrive(full + stage);
      if (++stage == STAGES) stage = 0, phase ^= 1;
    };
    float x[2][ITEMS][8];
    const auto turn = [&](const float (&now)[ITEMS][8], float (&next)[ITEMS][8]) {
      const int64_t left = p.left + s;
      if (++s == p.slices) s = 0, number += BLOCKS, seek();
      if (more) ask(next);
      put(now, left);
    };
    seek();
    if (more) ask(x[0]);
    while (more) {
      turn(x[0], x[1]);
      if (more) turn(x[1], x[0]);
    }
"""
# Whoever stores to a stage or loads from it arrives by itself, not a lane for its warp after `__syncwarp`: racecheck follows
# each thread's own arrivals only, and an H200 takes no longer for it.
_GIVE = "    ws::barrier_arrive(empty + behind);\n"
_SOME = "  float some[64] = {};  // sums of one slice"
_MULTIPLY = """\
      for (int s = 0; s < p.slices; s++) {
        begin(some);
        ws::products_wait<0>(some);
        add(some);
      }
"""


def thin_kernels(left: str, right: str) -> tuple[list[Launch], str]:
    """`left`, `right`: the factors' operands."""
    feed = _FEED.replace("{right}", right)
    roles = Roles(
        512, "two that bring tiles", 257, 256, 152, feed, _SOME, _MULTIPLY, _GIVE
    )  # 104 + 152 registers: all there are
    return wgmma_kernels(left, right, roles=roles)

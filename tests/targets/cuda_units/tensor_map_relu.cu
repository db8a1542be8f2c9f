// warpsmith-unit: 1
// family: pointwise   technique: tensor-maps
// tunable: ROWS = 8 {8, 16}
// tunable: COLUMNS = 32 {32}
// flags: -maxrregcount=64
// tensor-map: X = in0 {ROWS, COLUMNS}
// tensor-map: Y = out0 {ROWS, COLUMNS}
// A block moves one box into shared memory by the copy engine, and back.
#include "task.h"

__global__ void relu(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap y) {
  __shared__ alignas(128) in0_t box[ROWS * COLUMNS];
  __shared__ alignas(8) uint64_t arrived;
  const unsigned at = (unsigned)__cvta_generic_to_shared(box), barrier = (unsigned)__cvta_generic_to_shared(&arrived);
  const int column = blockIdx.x * COLUMNS, row = blockIdx.y * ROWS;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(barrier) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(barrier), "r"((unsigned)sizeof box) : "memory");
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 :: "r"(at), "l"(&x), "r"(column), "r"(row), "r"(barrier) : "memory");
  }
  __syncthreads();
  unsigned over = 0;
  while (over == 0)
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(over) : "r"(barrier) : "memory");
  for (int i = threadIdx.x; i < ROWS * COLUMNS; i += blockDim.x) box[i] = box[i] > 0 ? box[i] : (in0_t)0;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"
                 :: "l"(&y), "r"(column), "r"(row), "r"(at) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}

static void unit(const in0_t* in0, out0_t* out0, const CUtensorMap* maps, void* workspace, void* stream) {
  const dim3 boxes((in0_shape[1] + COLUMNS - 1) / COLUMNS, (in0_shape[0] + ROWS - 1) / ROWS);
  relu<<<boxes, 128, 0, (cudaStream_t)stream>>>(maps[MAP_X], maps[MAP_Y]);
}

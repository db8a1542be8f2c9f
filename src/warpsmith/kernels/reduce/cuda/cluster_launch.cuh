//! Thread block clusters of PARTS blocks a row (sm_90 on; one block before): launch attribute and permission for more
//! than eight.
// Rows are shared by clusters of PARTS blocks.
#if __CUDA_ARCH_LIST__ >= 900
#include <cooperative_groups.h>
constexpr int PARTS = CLUSTER;
#define BLOCKS_MEET __cluster_dims__(PARTS, 1, 1)
// Clusters of more than eight blocks are not portable and have to be allowed; an H100 has them.
#define ALLOW(kernel) cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, PARTS > 8)
#else
constexpr int PARTS = 1;
#define BLOCKS_MEET
#define ALLOW(kernel) (void)0
#endif

"""Matrix products: GEMM, batched GEMM, GEMV, skinny and triangular products."""

//! Defaults of the tunables, and integer arithmetic at compile time, that the CPU GEMMs share.
// Tunables that the main shapes leave no choice for.
#ifndef SPLIT
#define SPLIT 1
#endif
#ifndef ROWS
#define ROWS 1
#endif
#ifndef COLUMNS
#define COLUMNS 1
#endif
#ifndef PACK
#define PACK 1
#endif
#ifndef RESIDENT
#define RESIDENT 512
#endif
constexpr int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
constexpr int64_t pieces(int64_t n, int64_t size) { return (n + size - 1) / size; }
constexpr int64_t padded(int64_t n, int64_t unit) { return pieces(n, unit) * unit; }
// The size of equal pieces of at most `size`.
constexpr int64_t even(int64_t n, int64_t size) { return n > 0 ? pieces(n, pieces(n, size)) : 1; }

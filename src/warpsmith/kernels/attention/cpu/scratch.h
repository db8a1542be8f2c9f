//! A thread's scratch for attention: packed keys, values and queries, a block of scores, weighted sums.
float* const keys = (float*)workspace + part * SCRATCH;
float* const copies = keys + KEY_FLOATS;
float* const queries = copies + VALUE_FLOATS;
float* const weights = queries + QUERY_FLOATS;
float* const sums = weights + QUERIES * KEYS;

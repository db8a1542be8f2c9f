//! A block's head and first row, its operands, and the tiles of keys that its rows see. Values: strides, indices of a head.
  // Of the heads that are near, the last rows go first: they see most keys of a diagonal.
  const int64_t batch = blockIdx.x / (NEAR_HEADS * ROW_BLOCKS), number = blockIdx.x % (NEAR_HEADS * ROW_BLOCKS);
  const int64_t near = HEADS - batch * NEAR_HEADS < NEAR_HEADS ? HEADS - batch * NEAR_HEADS : NEAR_HEADS;
  const int64_t head = batch * NEAR_HEADS + number % near;
  const int first_row = (int)(ROW_BLOCKS - 1 - number / near) * QUERIES;
  $indices
  const half_t* const queries = $query_start;
  const half_t* const keys = $key_start;
  const half_t* const values = $value_start;
  int64_t score_at[] = {$score_index}, out_at[] = {$out_index};
  const float scale = MAPPED ? 1.0f : $scale, sign = scale < 0.0f ? -1.0f : 1.0f, factor = sign * scale * LOG2_E;

  const int last_row = (first_row + QUERIES < ROW_COUNT ? first_row + QUERIES : (int)ROW_COUNT) - 1;
  const int64_t seen_end = CAUSAL && last_row + LIMIT + 1 < KEY_COUNT ? last_row + LIMIT + 1 : KEY_COUNT;
  const int64_t seen_begin = WINDOWED && first_row + FLOOR > 0 ? (first_row + FLOOR) / KEYS * KEYS : 0;
  const int tiles = seen_end > seen_begin ? (int)((seen_end - seen_begin + KEYS - 1) / KEYS) : 0;

//! Table of K steps for wgmma on fp16: each step is 16 terms, two 8-channel vectors, told as descriptor offsets into
//! the patch.
// `where`: the first channel vector in the patch, and how much further the second one lies, times 2^16, both in channel vectors. `channel vector`:
// tap * CHANNEL_VECTORS + plane; -1: zeros.
template <int MOST>
struct Pairs {
  int channel_vector[2 * MOST] = {}, count = 0, place = 0, half = -1;  // half a step waits for the other
  uint32_t where[MOST] = {};
  constexpr void add(int at, int own) {
    if (half < 0) {
      place = at, half = own;
      return;
    }
    const bool after = at >= place;  // how much further is never less than nothing
    where[count] = after ? place | (at - place) << 16 : at | (place - at) << 16;
    channel_vector[2 * count] = after ? half : own, channel_vector[2 * count + 1] = after ? own : half;
    count++, half = -1;
  }
  constexpr void end() {
    if (half < 0) return;
    where[count] = place, channel_vector[2 * count] = half, channel_vector[2 * count + 1] = -1;
    count++, half = -1;
  }
};

//! Index arithmetic of one spatial axis of a convolution, plain or transposed, evaluated by the compiler. A transposed
//! one falls into phases (remainders modulo the stride), each a stride-1 convolution with taps of its own, so no zero
//! is multiplied.
// The grid: outputs of one phase (of all, where nothing is transposed). A phase is a remainder of the output's coordinate
// modulo the stride: the same taps reach all outputs of a phase, each from neighbouring inputs.
struct Axis {
  int size, stride, padding, dilation;
  // Does tap k reach the outputs of a phase?
  constexpr bool meets(int phase, int k) const {
    return !TRANSPOSED || (phase + padding - k * dilation) % stride == 0;
  }
  // What it reads for place 0 of the grid.
  constexpr int reads(int phase, int k) const {
    return TRANSPOSED ? (phase + padding - k * dilation) / stride : k * dilation - padding;
  }
  constexpr int phases() const { return TRANSPOSED ? stride : 1; }
  constexpr int pace() const { return TRANSPOSED ? 1 : stride; }  // inputs from one place of the grid to the next
  constexpr int lowest() const {
    int found = 1 << 30;
    for (int phase = 0; phase < phases(); phase++)
      for (int k = 0; k < size; k++)
        if (meets(phase, k) && reads(phase, k) < found) found = reads(phase, k);
    return found;
  }
  constexpr int highest() const {
    int found = -(1 << 30);
    for (int phase = 0; phase < phases(); phase++)
      for (int k = 0; k < size; k++)
        if (meets(phase, k) && reads(phase, k) > found) found = reads(phase, k);
    return found;
  }
  // Inputs that `tile` places read.
  constexpr int span(int tile) const { return (tile - 1) * pace() + highest() - lowest() + 1; }
  constexpr int64_t places(int64_t outputs) const { return ws::ceil_div(outputs, (int64_t)phases()); }
};
constexpr int rounded(int n, int to) { return (n + to - 1) / to * to; }
constexpr Axis AXIS_D = {KD, SD, PD, LD}, AXIS_H = {KH, SH, PH, LH}, AXIS_W = {KW, SW, PW, LW};

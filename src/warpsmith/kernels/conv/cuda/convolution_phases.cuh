//! Phases of a convolution's output and the blocks of output channels, evaluated by the compiler. Wants
//! convolution_axes.cuh.
constexpr int LOW_D = AXIS_D.lowest(), LOW_H = AXIS_H.lowest(), LOW_W = AXIS_W.lowest();
constexpr int PACE_D = AXIS_D.pace(), PACE_H = AXIS_H.pace(), PACE_W = AXIS_W.pace();
constexpr int PHASES_D = AXIS_D.phases(), PHASES_H = AXIS_H.phases(), PHASES_W = AXIS_W.phases();
// A block makes all phases of a row together, where they are few, so that it stores whole rows.
constexpr int INNER = PHASES_W <= 3 ? PHASES_W : 1, OUTER = PHASES_D * PHASES_H * (PHASES_W / INNER);
constexpr int LISTS = OUTER * INNER, TAPS = KD * KH * KW;
constexpr int phase_w(int outer, int inner) { return outer % (PHASES_W / INNER) + inner; }
constexpr int phase_h(int outer) { return outer / (PHASES_W / INNER) % PHASES_H; }
constexpr int phase_d(int outer) { return outer / (PHASES_W / INNER) / PHASES_H; }
constexpr int64_t BLOCKS_OUT = ws::ceil_div(OUTS, (int64_t)CHANNELS);

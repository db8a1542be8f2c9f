//! Input columns that a block of BLOCK windows covers; those that do not exist on the left become padding of the line.
$index = block * BLOCK;
const int64_t length = Width::O - $index < BLOCK ? Width::O - $index : BLOCK;
const int64_t low = Width::low($index), final = $index + length - 1;
const int64_t high = Width::low(final) + Width::reach(final);
const int64_t from = low < 0 ? 0 : low, to = high < Width::I ? high : Width::I;
float* const inner = line + (from - low);
for (int64_t i = low; i < from; ++i) line[i - low] = EMPTY;

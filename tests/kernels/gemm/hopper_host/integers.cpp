// The integer parts of the Hopper kernels as C functions, for ctypes.
#include "tile_schedule.cuh"

using namespace ws::sm90;

extern "C" {
uint32_t swizzle_128(uint32_t offset) { return swizzle<128>(offset); }
uint32_t swizzle_64(uint32_t offset) { return swizzle<64>(offset); }
uint32_t swizzle_32(uint32_t offset) { return swizzle<32>(offset); }
uint32_t panel_offset_64(uint32_t rows, uint32_t row, uint32_t column) { return panel_offset<64>(rows, row, column); }
uint32_t panel_offset_16(uint32_t rows, uint32_t row, uint32_t column) { return panel_offset<16>(rows, row, column); }
uint64_t descriptor(uint32_t address, uint32_t leading, uint32_t stride, int span) {
  return matrix_descriptor(address, leading, stride, span);
}
uint64_t k_major_descriptor(uint32_t address) { return OperandTile<false, 128, 64, 64>::descriptor(address); }
uint64_t mn_major_descriptor(uint32_t address) { return OperandTile<true, 256, 64, 64>::descriptor(address); }
uint64_t mn_major_32_descriptor(uint32_t address) { return OperandTile<true, 160, 64, 32>::descriptor(address); }
uint32_t k_major_offset(int row, int step) { return OperandTile<false, 128, 128, 64>::offset(row, step); }
uint32_t mn_major_offset(int row, int step) { return OperandTile<true, 256, 64, 64>::offset(row, step); }
int raster_row(int index, int rows, int columns, int group, int along_n) { return raster(index, rows, columns, group, along_n).row; }
int raster_column(int index, int rows, int columns, int group, int along_n) { return raster(index, rows, columns, group, along_n).column; }
int slices_first(int slices, int parts, int part) { return slices_of_part(slices, parts, part).first; }
int slices_count(int slices, int parts, int part) { return slices_of_part(slices, parts, part).count; }
// Stage and phase after `uses` single steps, and after one step of `uses`: stage | phase << 8.
int ring_by_steps(int uses) {
  RingPosition<5> ring;
  for (int i = 0; i < uses; i++) ring.advance();
  return ring.stage | ring.phase << 8;
}
int ring_at_once(int first, int uses) {
  RingPosition<5> ring;
  ring.advance(first), ring.advance(uses);
  return ring.stage | ring.phase << 8;
}
int permille(int m, int n, int tile_m, int tile_n, int slots) { return wave_permille(m, n, tile_m, tile_n, slots); }
int filling(int m, int n, int tile_m, int slots, int least, int most) { return wave_filling_tile_n(m, n, tile_m, slots, least, most); }
}

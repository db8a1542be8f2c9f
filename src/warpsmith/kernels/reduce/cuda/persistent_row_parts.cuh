//! Start of the persistent row reduction: which rows and which part of them a block takes, and how many steps stay in
//! shared memory.
const int part = (int)blockIdx.x % parts, team = (int)blockIdx.x / parts, teams = (int)gridDim.x / parts;
const int slot = threadIdx.x;
constexpr bool inside = true;
// Parts begin at multiples of 32 packs, so that none shares a line of the cache.
const int share = ws::ceil_div(PACKS, parts * 32) * 32, low = part * share;
const int high = low + share < PACKS ? low + share : PACKS;
const int steps = ws::ceil_div(share, STEP), again = steps > KEPT ? steps - KEPT : 0;  // steps that are read again
const bool along = again == 0 && OVERLAP_STEPS >= 0;  // is a row added while the one before is written?
const int spare = ROOM - steps - LAG;
const int early = !along || spare < 0 ? 0 : spare < steps ? spare : steps - 1;
int from = 0, left = 0;  // where the next step lies that comes; how many were asked for from there on

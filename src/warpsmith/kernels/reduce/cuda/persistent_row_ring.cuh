//! Multistage ring of the persistent row reduction in shared memory: steps that are kept, lead and lag. Limit: 225 KiB.
constexpr int FITTING = (SMEM_KIB * 1024 - BROUGHT * BROUGHT_BYTES) / STEP_BYTES;
constexpr int ROOM = FITTING < 2 ? 2 : FITTING;  // steps of a row in shared memory
constexpr int LEAD = PREFETCH_STEPS < ROOM / 2 ? PREFETCH_STEPS : ROOM / 2;  // that are for the next row even before this one is written
constexpr int KEPT = ROOM - LEAD;  // of a row, until it is written
constexpr int LAG = LEAD > OVERLAP_STEPS ? LEAD - OVERLAP_STEPS : 1;  // that are under way while a row is added and written
constexpr int SHARED = ROOM * STEP_BYTES + BROUGHT * BROUGHT_BYTES;
static_assert(SHARED <= 225 * 1024, "requires: two steps that fit shared memory");

//! Output index of a result of the warp-specialised implicit GEMM: from the row of the tile to image, depth, height and
//! width. $result: number of the result among those of a channel.
        const int row = row0 + $result / INNER, image = row / (int)CELLS, cell = row % (int)CELLS;
        const int x = (cell % (int)CELLS_W * INNER + $result % INNER) * (PHASES_W / INNER) + phase_w(outer, 0);
        const int y = cell / (int)CELLS_W % (int)CELLS_H * PHASES_H + phase_h(outer);
        const int z = cell / (int)(CELLS_W * CELLS_H) * PHASES_D + phase_d(outer);
        const bool inside = image < IMAGES && x < OW && y < OH && z < OD;
        int64_t at[RANK];
        at[0] = inside ? image : 0;
        at[RANK - (SPACE > 2 ? 3 : 1)] = inside ? z : 0;
        at[RANK - (SPACE > 1 ? 2 : 1)] = inside ? y : 0;
        at[RANK - 1] = inside ? x : 0;

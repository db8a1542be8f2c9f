//! Members of a table of taps: K slices of the packed weights that belong to, or come before, a phase of the output.
  constexpr int slices_of(int outer) const {  // of a chunk
    int sum = 0;
    for (int inner = 0; inner < INNER; inner++) sum += slices(outer * INNER + inner);
    return sum;
  }
  constexpr int before(int outer) const {
    int sum = 0;
    for (int i = 0; i < outer; i++) sum += slices_of(i);
    return sum;
  }

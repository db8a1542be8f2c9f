//! Entry of an index table, negative indices wrapped.
// An entry of a table of indices; WRAP is added to a negative one.
template <int64_t WRAP, class T> WS_FN int64_t entry(T index) { return index < 0 ? index + WRAP : index; }

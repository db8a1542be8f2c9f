//! Merge of the states of all threads that share a row or a column of a reduction. $merge: the call.
// One state out of those of all threads of a row.
template <class State>
__device__ __forceinline__ void merge_all(State& state) {
  $merge;
}

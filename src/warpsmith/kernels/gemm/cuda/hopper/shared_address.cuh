//! Addresses in shared memory as 32-bit numbers, as PTX has them.
#pragma once
#include <cstdint>

namespace ws::sm90 {

__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

}  // namespace ws::sm90

// The float8 types of CUDA's header of this name, for g++: warpsmith_cuda_float8.h has their arithmetic.
#pragma once
#define __CUDA_FP8_H__
#include "cuda_on_host.h"
struct __nv_fp8_e4m3 { uint8_t __x; };
struct __nv_fp8_e5m2 { uint8_t __x; };

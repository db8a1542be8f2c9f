// Types of a GEMM unit, chosen by -D.
#pragma once
#include <type_traits>

#include "gemm_epilogue.cuh"
#include "traits.h"

#ifndef G_IN_BF16
#define G_IN_BF16 0
#endif
#ifndef G_OUT_FP32
#define G_OUT_FP32 0
#endif
#ifndef G_EPILOGUE
#define G_EPILOGUE 0
#endif

using InType = std::conditional_t<G_IN_BF16, __nv_bfloat16, __half>;
using OutputType = std::conditional_t<G_OUT_FP32, float, InType>;
constexpr int IN_TYPE = G_IN_BF16 ? BF16 : FP16, OUT_TYPE = G_OUT_FP32 ? FP32 : IN_TYPE;
#if G_EPILOGUE
using Epilogue = ws::sm90::LinearEpilogue<InType, ws::sm90::Gelu>;
#else
using Epilogue = ws::sm90::PlainEpilogue;
#endif

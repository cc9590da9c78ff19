// Compiles a loop for several kinds of CPU and chooses, as the program runs, the best version for this CPU.
//
//   RunOnThisCpu([&] {
//     for (int64_t i = 0; i < n; ++i) out[i] = a[i] * b[i];
//   });
//
// The loop is compiled for plain x86-64, with the vectors of 32 bytes of x86-64-v3 and with those of 64 bytes
// of x86-64-v4; on other CPUs, and with MESHWORK_ONE_CPU_LEVEL (as under sanitizers), once, as it is.
// The functions that it calls are inlined into each version, if the compiler sees their bodies.
//
// All versions give the same bits, because each operation of IEEE 754 (+, -, *, /, sqrt, comparisons,
// conversions) is rounded the same in vectors of any width and in the remainder of a loop, and meshwork is
// compiled with -ffp-contract=off, so that none are fused. A loop must not sum in an order that depends on
// the width; compilers do not reorder sums unless an option allows it, and meshwork sets no such option.
// Functions of the C library are calls, one element at a time, and may round differently from machine to
// machine; the functions of ops/kernels/portable/vector_math.h are inlined as operations of the loop.
#pragma once

#include <cstdint>

namespace meshwork {

// Each level has the instructions of the levels before it.
enum class CpuLevel : uint8_t { kBaseline, kV3, kV4 };

CpuLevel BestCpuLevel();  // the highest that this CPU has and that the compiler could make
CpuLevel UsedCpuLevel();  // the best, unless UseCpuLevel has set another

// For tests and benchmarks: loops that start from now on run as for `level`. REQUIRES: not above the best.
void UseCpuLevel(CpuLevel level);

// "baseline", "v3", "v4"
const char* CpuLevelName(CpuLevel level);

#if defined(__x86_64__) && defined(__GNUC__) && !defined(MESHWORK_ONE_CPU_LEVEL)
#define MESHWORK_CPU_LEVELS 1
#define MESHWORK_CPU_V3 "avx2,bmi,bmi2"
#if defined(__clang__)
#define MESHWORK_CPU_V4 "avx512f,avx512bw,avx512cd,avx512dq,avx512vl," MESHWORK_CPU_V3
#else
// Without prefer-vector-width, g++ uses vectors of half this width.
#define MESHWORK_CPU_V4 "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,prefer-vector-width=512," MESHWORK_CPU_V3
#endif
#endif

namespace internal {

#ifdef MESHWORK_CPU_LEVELS
template <typename Loop, typename... Args>
__attribute__((target(MESHWORK_CPU_V4), flatten)) void RunAsV4(const Loop& loop, const Args&... args) {
  loop(args...);
}
template <typename Loop, typename... Args>
__attribute__((target(MESHWORK_CPU_V3), flatten)) void RunAsV3(const Loop& loop, const Args&... args) {
  loop(args...);
}
template <typename Loop, typename... Args>
__attribute__((flatten)) void RunAsBaseline(const Loop& loop, const Args&... args) {
  loop(args...);
}
#endif

}  // namespace internal

// Calls loop(args...), compiled for the lower of `level` and kMost: a loop is not compiled for levels above kMost. Any
// number of threads at once.
template <CpuLevel kMost = CpuLevel::kV4, typename Loop, typename... Args>
void RunOnCpu([[maybe_unused]] CpuLevel level, const Loop& loop, const Args&... args) {
#ifdef MESHWORK_CPU_LEVELS
  switch (level) {
    case CpuLevel::kV4:
      if constexpr (kMost == CpuLevel::kV4) return internal::RunAsV4(loop, args...);
      [[fallthrough]];
    case CpuLevel::kV3: return internal::RunAsV3(loop, args...);
    case CpuLevel::kBaseline: return internal::RunAsBaseline(loop, args...);
  }
#else
  loop(args...);
#endif
}

// Calls loop(args...), compiled for the level in use.
template <CpuLevel kMost = CpuLevel::kV4, typename Loop, typename... Args>
void RunOnThisCpu(const Loop& loop, const Args&... args) {
  RunOnCpu<kMost>(UsedCpuLevel(), loop, args...);
}

}  // namespace meshwork

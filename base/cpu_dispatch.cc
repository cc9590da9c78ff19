#include "meshwork/base/cpu_dispatch.h"

#include <atomic>

#include "meshwork/base/status.h"

namespace meshwork {
namespace {

std::atomic<CpuLevel>& Used() {
  static std::atomic<CpuLevel> used = BestCpuLevel();
  return used;
}

}  // namespace

CpuLevel BestCpuLevel() {
#ifdef MESHWORK_CPU_LEVELS
  // These are false if the operating system does not save the registers.
  const bool v3 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  return v4 ? CpuLevel::kV4 : v3 ? CpuLevel::kV3 : CpuLevel::kBaseline;
#else
  return CpuLevel::kBaseline;
#endif
}

CpuLevel UsedCpuLevel() { return Used().load(std::memory_order_relaxed); }

void UseCpuLevel(CpuLevel level) {
  MESHWORK_CHECK(level <= BestCpuLevel(), "this CPU has no {}", CpuLevelName(level));
  Used().store(level, std::memory_order_relaxed);
}

const char* CpuLevelName(CpuLevel level) {
  switch (level) {
    case CpuLevel::kBaseline: return "baseline";
    case CpuLevel::kV3: return "v3";
    case CpuLevel::kV4: break;
  }
  return "v4";
}

}  // namespace meshwork

// All benchmarks as one program of Google Benchmark: --benchmark_filter=REGEX chooses, --benchmark_out=FILE
// writes JSON, --help lists the flags.
#include <benchmark/benchmark.h>

#include <fstream>
#include <string>

#include "fmt/format.h"
#include "runtime/worker_pool.h"

namespace meshwork {
namespace {

// "model name : Intel…" of /proc/cpuinfo.
std::string CpuName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

}  // namespace
}  // namespace meshwork

int main(int argc, char** argv) {
  benchmark::AddCustomContext("cpu", meshwork::CpuName());
  benchmark::AddCustomContext("workers", fmt::format("{}", meshwork::WorkerPool::DefaultWorkers()));
#ifdef NDEBUG
  benchmark::AddCustomContext("meshwork_build_type", "release");
#else
  benchmark::AddCustomContext("meshwork_build_type", "debug");
#endif
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  // A misspelt filter measures nothing.
  const size_t ran = benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return ran > 0 ? 0 : 2;
}

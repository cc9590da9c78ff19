// All benchmarks as one program of Google Benchmark: --benchmark_filter=REGEX chooses, --benchmark_out=FILE
// writes JSON, --help lists the flags.
#include <benchmark/benchmark.h>

#include "benchmarks/machine.h"
#include "fmt/format.h"
#include "meshwork/runtime/cpu/worker_pool.h"

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
  // A misspelt filter would measure nothing.
  const size_t ran = benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return ran > 0 ? 0 : 2;
}

#include "benchmarks/measure.h"

#include <cstring>
#include <utility>
#include <vector>

#include "base/status.h"
#include "benchmarks/machine.h"
#include "fmt/format.h"

namespace meshwork {

absl::Status MeasureBesideMemcpy(benchmark::State& state, WorkerPool& pool, int64_t bytes,
                                 const std::function<absl::StatusOr<double>()>& f) {
  std::vector<char> from(static_cast<size_t>(bytes), 1), to(from.size(), 2);
  const std::function<void(int)> copy = [&](int worker) {
    const int64_t workers = pool.num_workers();
    const int64_t first = bytes * worker / workers, last = bytes * (worker + 1) / workers;
    std::memcpy(to.data() + first, from.data() + first, static_cast<size_t>(last - first));
  };
  std::vector<double> ours, memcpys;
  for (auto _ : state) {
    ASSIGN_OR_RETURN(const double seconds, f());
    state.SetIterationTime(seconds);
    ours.push_back(seconds);
    memcpys.push_back(Seconds([&] { pool.Run(copy); }));
  }
  state.SetBytesProcessed(static_cast<int64_t>(ours.size()) * bytes);
  state.counters["x_memcpy"] = Median(std::move(ours)) / Median(std::move(memcpys));
  return absl::OkStatus();
}

void RegisterMeasurement(const std::string& name, benchmark::TimeUnit unit,
                         const std::function<absl::Status(benchmark::State&)>& f) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [f](benchmark::State& state) {
                                 const absl::Status status = f(state);
                                 if (!status.ok())
                                   state.SkipWithError(std::string(MessageOf(status)).c_str());
                               })
      ->Unit(unit)
      ->UseManualTime();
}

std::string SizeName(int64_t bytes) {
  constexpr int64_t kMi = int64_t{1} << 20;
  return bytes >= kMi ? fmt::format("{}MiB", bytes / kMi) : fmt::format("{}KiB", bytes / 1024);
}

}  // namespace meshwork

#include "benchmarks/measure.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/status.h"
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

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double MegabytesOf(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(field + ":", 0) != 0) continue;
    std::istringstream number(line.substr(field.size() + 1));
    double kilobytes = 0;
    number >> kilobytes;
    return kilobytes * 1024 / 1e6;
  }
  return 0;
}

void ForgetPeak() { std::ofstream("/proc/self/clear_refs") << "5"; }

std::string SizeName(int64_t bytes) {
  constexpr int64_t kMi = int64_t{1} << 20;
  return bytes >= kMi ? fmt::format("{}MiB", bytes / kMi) : fmt::format("{}KiB", bytes / 1024);
}

}  // namespace meshwork

#include "benchmarks/measure.h"

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "benchmarks/machine.h"
#include "fmt/format.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/tensor/tensor.h"

namespace meshwork {

absl::Status MeasureBesideMemcpy(benchmark::State& state, WorkerPool& pool, int64_t moved,
                                 const std::function<absl::StatusOr<double>()>& f) {
  const int64_t bytes = moved / 2;
  const std::shared_ptr<void> from = AllocateAligned(bytes), to = AllocateAligned(bytes);
  std::vector<double> seconds(pool.num_workers());
  const auto for_slices = [&](const std::function<void(std::byte*, std::byte*, size_t)>& g) {
    pool.Run([&](int worker) {
      const int64_t workers = pool.num_workers();
      const int64_t first = bytes * worker / workers, last = bytes * (worker + 1) / workers;
      seconds[worker] = Seconds([&] {
        g(static_cast<std::byte*>(to.get()) + first, static_cast<std::byte*>(from.get()) + first,
          static_cast<size_t>(last - first));
      });
    });
    return *std::max_element(seconds.begin(), seconds.end());
  };
  for_slices([](std::byte* a, std::byte* b, size_t n) { std::memset(a, 1, n), std::memset(b, 2, n); });
  std::vector<double> ours, memcpys;
  const auto turn = [&]() -> absl::Status {
    MESHWORK_ASSIGN_OR_RETURN(const double took, f());
    ours.push_back(took);
    const auto copy = [](std::byte* a, std::byte* b, size_t n) { std::memcpy(a, b, n); };
    for_slices(copy);
    memcpys.push_back(for_slices(copy));
    return absl::OkStatus();
  };
  MESHWORK_RETURN_IF_ERROR(turn());  // warms up pages and caches
  ours.clear(), memcpys.clear();
  for (auto _ : state) {
    MESHWORK_RETURN_IF_ERROR(turn());
    state.SetIterationTime(ours.back());
  }
  state.SetBytesProcessed(static_cast<int64_t>(ours.size()) * moved);
  while (ours.size() < 7) MESHWORK_RETURN_IF_ERROR(turn());
  const double median = Median(std::move(ours));
  state.counters["instruction_us"] = 1e6 * median;
  state.counters["of_memcpy"] = Median(std::move(memcpys)) / median;
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

// Benchmarks of moving bytes, each compared with memcpy in the same run.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/runtime/cpu/worker_pool.h"

namespace meshwork {

// Runs `f` in turn with memcpy, so that noise meets both. `f` returns the seconds that it took to move
// `moved` bytes, read and written bytes together. memcpy moves as many: it copies a block of half as many
// bytes into another, split evenly over the workers of the pool; the slowest worker counts. memcpy runs twice
// and only the second run counts, because the data of `f` were used just before, too: both find in the caches what
// these can hold. The time of an iteration is that of `f`. Counters: instruction_us, the median of `f`;
// of_memcpy, the median of memcpy divided by it. At least 7 turns. REQUIRES: the benchmark uses manual time.
// Errors: those of `f`.
absl::Status MeasureBesideMemcpy(benchmark::State& state, WorkerPool& pool, int64_t moved,
                                 const std::function<absl::StatusOr<double>()>& f);

// Registers `f` as the benchmark `name`, in manual time, shown in `unit`. The benchmark fails with the
// message of `f`'s error.
void RegisterMeasurement(const std::string& name, benchmark::TimeUnit unit,
                         const std::function<absl::Status(benchmark::State&)>& f);

// "4KiB", "64MiB". REQUIRES: a power of two, at least 1024.
std::string SizeName(int64_t bytes);

}  // namespace meshwork

// What a benchmark of moving bytes is held against: memcpy, in the same run.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/worker_pool.h"

namespace meshwork {

// Runs `f`, which says how many seconds it took, in turn with memcpy of `bytes` split evenly over the workers
// of the pool, so that noise meets both. The time of an iteration is that of `f`; counter x_memcpy is the
// ratio of the medians. REQUIRES: the benchmark uses manual time. Errors: those of `f`.
absl::Status MeasureBesideMemcpy(benchmark::State& state, WorkerPool& pool, int64_t bytes,
                                 const std::function<absl::StatusOr<double>()>& f);

// The benchmark `name`, which fails with the message of `f`'s error; manual time, shown in `unit`.
void RegisterMeasurement(const std::string& name, benchmark::TimeUnit unit,
                         const std::function<absl::Status(benchmark::State&)>& f);

// Bytes of what is moved.
inline constexpr int64_t kSizes[] = {4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20};

// "4KiB", "64MiB". REQUIRES: a power of two, at least 1024.
std::string SizeName(int64_t bytes);

}  // namespace meshwork

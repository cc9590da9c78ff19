// What a benchmark of moving bytes is held against: memcpy, in the same run.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/runtime/cpu/worker_pool.h"

namespace meshwork {

// Runs `f`, which says how many seconds it took to move so many bytes, read and written ones together, in
// turn with memcpy that moves as many: from one block of half as many into another, split evenly over the
// workers of the pool, of whom the slowest counts. So noise meets both. memcpy runs twice and the second time
// counts, as what `f` moves was there before: both find in the caches what these can hold. The time of an
// iteration is that of `f`. Counters: instruction_us, its median, and of_memcpy, memcpy's median by it. At
// least 7 turns. REQUIRES: the benchmark uses manual time. Errors: those of `f`.
absl::Status MeasureBesideMemcpy(benchmark::State& state, WorkerPool& pool, int64_t moved,
                                 const std::function<absl::StatusOr<double>()>& f);

// The benchmark `name`, which fails with the message of `f`'s error; manual time, shown in `unit`.
void RegisterMeasurement(const std::string& name, benchmark::TimeUnit unit,
                         const std::function<absl::Status(benchmark::State&)>& f);

// "4KiB", "64MiB". REQUIRES: a power of two, at least 1024.
std::string SizeName(int64_t bytes);

}  // namespace meshwork

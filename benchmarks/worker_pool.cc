// The cost of a barrier of all workers, and of an empty Run, in a pool of one worker per core.
//
//   barrier             one WorkerPool::barrier of all workers
//   std_barrier         one std::barrier of the same threads
//   run                 an empty Run, one after the other
//   run_rested          an empty Run after an idle millisecond: threads have to be woken up
//   run_beside_another  an empty Run in turn with a Run of another pool, whose threads then wait
//
// Each runs with (/own_cores) and without a core for each thread. The time of barriers is that of 1,000
// barriers and one Run; median_us is that of one barrier or Run.
#include "meshwork/runtime/cpu/worker_pool.h"

#include <barrier>
#include <chrono>
#include <thread>

#include "benchmarks/machine.h"
#include "benchmarks/measure.h"

namespace meshwork::worker_pool_benchmark {
namespace {

// Many barriers of all workers: each worker calls meet().
template <typename F>
absl::Status MeasureMeetings(benchmark::State& state, WorkerPool& pool, F&& meet) {
  constexpr int kMeetings = 1000;
  std::vector<double> meetings;
  for (auto _ : state) {
    const double seconds = Seconds([&] {
      pool.Run([&](int) {
        for (int i = 0; i < kMeetings; ++i) meet();
      });
    });
    state.SetIterationTime(seconds);
    meetings.push_back(seconds / kMeetings);
  }
  state.counters["median_us"] = 1e6 * Median(std::move(meetings));
  return absl::OkStatus();
}

absl::Status MeasureBarrier(benchmark::State& state, WorkerPool& pool) {
  return MeasureMeetings(state, pool, [&] { pool.barrier().Wait(); });
}

absl::Status MeasureStdBarrier(benchmark::State& state, WorkerPool& pool) {
  std::barrier barrier(pool.num_workers());
  return MeasureMeetings(state, pool, [&] { barrier.arrive_and_wait(); });
}

// Empty Runs, each after a call of `between`.
template <typename F>
absl::Status MeasureRun(benchmark::State& state, WorkerPool& pool, F&& between) {
  std::vector<double> runs;
  for (auto _ : state) {
    between();
    runs.push_back(Seconds([&] { pool.Run([](int) {}); }));
    state.SetIterationTime(runs.back());
  }
  state.counters["median_us"] = 1e6 * Median(std::move(runs));
  return absl::OkStatus();
}

absl::Status MeasureRunBesideAnother(benchmark::State& state, WorkerPool& pool, bool own_cores) {
  WorkerPool other(WorkerPool::DefaultWorkers(), own_cores);
  return MeasureRun(state, pool, [&] { other.Run([](int) {}); });
}

const bool kRegistered = [] {
  for (const bool own_cores : {true, false}) {
    const auto add = [own_cores](const char* name, auto f) {
      RegisterMeasurement(std::string(name) + (own_cores ? "/own_cores" : ""), benchmark::kMicrosecond,
                          [f, own_cores](benchmark::State& state) {
                            WorkerPool pool(WorkerPool::DefaultWorkers(), own_cores);
                            return f(state, pool);
                          });
    };
    add("barrier", MeasureBarrier);
    add("std_barrier", MeasureStdBarrier);
    add("run", [](benchmark::State& state, WorkerPool& pool) { return MeasureRun(state, pool, [] {}); });
    add("run_rested", [](benchmark::State& state, WorkerPool& pool) {
      return MeasureRun(state, pool, [] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); });
    });
    add("run_beside_another", [own_cores](benchmark::State& state, WorkerPool& pool) {
      return MeasureRunBesideAnother(state, pool, own_cores);
    });
  }
  return true;
}();

}  // namespace
}  // namespace meshwork::worker_pool_benchmark

#include "runtime/worker_pool.h"

#include <atomic>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"

namespace meshwork {
namespace {

TEST(WorkerPoolTest, DefaultIsAtLeastOneWorker) { EXPECT_GE(WorkerPool::DefaultWorkers(), 1); }

TEST(WorkerPoolTest, RunsEveryWorkerOnceOnItsOwnThread) {
  for (int workers : {1, 2, 3, 8}) {
    WorkerPool pool(workers);
    EXPECT_EQ(pool.num_workers(), workers);
    for (int round = 0; round < 100; ++round) {
      std::vector<std::thread::id> ids(workers);
      pool.Run([&](int worker) { ids[worker] = std::this_thread::get_id(); });
      EXPECT_EQ(ids[0], std::this_thread::get_id());
      for (int a = 0; a < workers; ++a)
        for (int b = 0; b < a; ++b) EXPECT_NE(ids[a], ids[b]);
    }
  }
}

// More workers than cores: every value a worker wrote before the barrier is seen by all after it.
TEST(WorkerPoolTest, BarrierPublishesWhatWasWritten) {
  constexpr int kWorkers = 8, kRounds = 500;
  WorkerPool pool(kWorkers);
  std::vector<int64_t> values(kWorkers, 0), sums(kWorkers, 0);
  pool.Run([&](int worker) {
    for (int round = 1; round <= kRounds; ++round) {
      values[worker] = int64_t{worker} * round;
      pool.barrier().Wait();
      sums[worker] += std::accumulate(values.begin(), values.end(), int64_t{0});
      pool.barrier().Wait();
    }
  });
  const int64_t expected = int64_t{kWorkers * (kWorkers - 1) / 2} * kRounds * (kRounds + 1) / 2;
  for (int64_t sum : sums) EXPECT_EQ(sum, expected);
}

TEST(WorkerPoolTest, SleepersWakeUp) {
  WorkerPool pool(4);
  for (int round = 0; round < 5; ++round) {
    std::atomic<int> count = 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // long past spinning
    pool.Run([&](int worker) {
      if (worker == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      pool.barrier().Wait();
      ++count;
    });
    EXPECT_EQ(count, 4);
  }
}

TEST(WorkerPoolTest, RunsFromSeveralThreadsTakeTurns) {
  WorkerPool pool(3);
  int64_t unguarded = 0;  // a data race unless the runs exclude each other
  auto many_runs = [&] {
    for (int round = 0; round < 200; ++round) {
      pool.Run([&](int worker) {
        if (worker == 1) ++unguarded;
      });
    }
  };
  std::thread other(many_runs);
  many_runs();
  other.join();
  EXPECT_EQ(unguarded, 400);
}

}  // namespace
}  // namespace meshwork

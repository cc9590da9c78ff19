#include "meshwork/runtime/cpu/worker_pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace meshwork::worker_pool_test {
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

// More workers than cores: after the barrier all workers see the values that each worker wrote before it.
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

// Twice as many pools as cores run at once, each with more workers than cores: no worker waits for ever.
TEST(WorkerPoolTest, PoolsLargerThanTheMachineRunBesideEachOther) {
  constexpr int kRounds = 20, kMeetings = 10;
  const int workers = 2 * WorkerPool::DefaultWorkers() + 1;
  std::vector<std::thread> callers;
  std::vector<int64_t> sums(2 * WorkerPool::DefaultWorkers(), 0);
  for (int64_t& sum : sums) {
    callers.emplace_back([&] {
      WorkerPool pool(workers);
      std::vector<int64_t> met(workers, 0);
      for (int round = 0; round < kRounds; ++round) {
        pool.Run([&](int worker) {
          for (int i = 0; i < kMeetings; ++i) {
            ++met[worker];
            pool.barrier().Wait();
          }
        });
      }
      sum = std::accumulate(met.begin(), met.end(), int64_t{0});
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (int64_t sum : sums) EXPECT_EQ(sum, int64_t{workers} * kRounds * kMeetings);
}

TEST(WorkerPoolTest, PoolsTakeTurns) {
  WorkerPool a, b, c(1);
  std::atomic<int> count = 0;
  for (int round = 0; round < 300; ++round)
    for (WorkerPool* pool : {&a, &b, &c}) pool->Run([&](int) { ++count; });
  EXPECT_EQ(count, 300 * (2 * WorkerPool::DefaultWorkers() + 1));
}

// The cores on which the calling thread may run.
std::vector<int> MyCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

std::vector<std::vector<int>> CoresOfWorkers(WorkerPool& pool) {
  std::vector<std::vector<int>> cores(pool.num_workers());
  pool.Run([&](int worker) { cores[worker] = MyCores(); });
  return cores;
}

TEST(WorkerPoolTest, AThreadPerCoreKeepsItAndTheCallerIsFree) {
  const std::vector<int> mine = MyCores();
  WorkerPool pool;
  const std::vector<std::vector<int>> cores = CoresOfWorkers(pool);
  EXPECT_EQ(cores[0], mine);
  std::set<int> taken;
  for (size_t worker = 1; worker < cores.size(); ++worker) {
    ASSERT_EQ(cores[worker].size(), 1u) << "worker " << worker;
    EXPECT_TRUE(taken.insert(cores[worker][0]).second) << "two workers on core " << cores[worker][0];
    EXPECT_EQ(std::count(mine.begin(), mine.end(), cores[worker][0]), 1);
  }
  EXPECT_EQ(MyCores(), mine);
}

TEST(WorkerPoolTest, OtherPoolsRunOnAnyCore) {
  const std::vector<int> mine = MyCores();
  const int workers = WorkerPool::DefaultWorkers();
  WorkerPool free(workers, /*own_cores=*/false), large(workers + 1);
  for (const auto& cores : CoresOfWorkers(free)) EXPECT_EQ(cores, mine);
  for (const auto& cores : CoresOfWorkers(large)) EXPECT_EQ(cores, mine);
  if (workers == 1) return;
  WorkerPool small(workers - 1);
  for (const auto& cores : CoresOfWorkers(small)) EXPECT_EQ(cores, mine);
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

TEST(BarrierTest, PublishesWhatWasWrittenBetweenThreadsOfNoPool) {
  constexpr int kRounds = 1000;
  for (const int threads : {2, 3}) {
    Barrier barrier(threads, WorkerPool::DefaultWorkers());
    std::vector<int> values(threads, 0), wrong(threads, 0);
    std::vector<std::thread> others;
    const auto work = [&](int t) {
      for (int round = 1; round <= kRounds; ++round) {
        values[t] = round;
        barrier.Wait();
        for (int value : values) wrong[t] += value != round;
        barrier.Wait();
      }
    };
    for (int t = 1; t < threads; ++t) others.emplace_back(work, t);
    work(0);
    for (std::thread& other : others) other.join();
    EXPECT_EQ(wrong, std::vector<int>(threads, 0));
  }
}

TEST(SignalTest, WakesWhoeverSleeps) {
  Signal signal;
  int written = 0;
  std::vector<int> seen(4, 0);
  std::vector<std::thread> threads;
  for (int& mine : seen) {
    threads.emplace_back([&] {
      signal.Await(0, [&] { return &mine == &seen[0]; });  // one that spins, others that sleep at once
      mine = written;
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  written = 7;
  signal.Raise();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(seen, std::vector<int>(4, 7));
  signal.Await(0, [] { return false; });  // it has changed already
}

}  // namespace
}  // namespace meshwork::worker_pool_test

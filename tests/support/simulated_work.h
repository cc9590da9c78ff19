// The work of simulated GPUs, which is done late (simulated_cuda.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <vector>

namespace meshwork {

struct SimulatedOp {
  int device = 0;
  std::function<void()> run;
  bool is_done = false;
  int64_t done_at = 0;  // how many were done before
  int64_t num_waits = 0;
  std::vector<std::shared_ptr<SimulatedOp>> next;  // ops that wait for this one
};
using SimulatedOpPtr = std::shared_ptr<SimulatedOp>;

// Ops that wait for each other. Those that wait for nothing are done in random order.
class SimulatedWork {
 public:
  explicit SimulatedWork(uint64_t seed) : random_(seed) {}

  // Null and done ops among `after` are not waited for.
  SimulatedOpPtr Add(int device, std::function<void()> run, const std::vector<SimulatedOpPtr>& after);
  // Does ops until this one is done; null: none.
  void DoUntil(const SimulatedOpPtr& op);
  void DoAll(int device);
  void DoAll();
  // Does at least one op if there are some.
  void DoSome();

  int64_t num_pending() const;

 private:
  void DoOne();

  std::mt19937_64 random_;
  std::vector<SimulatedOpPtr> ready_;
  std::vector<int64_t> pending_;  // per device
  int64_t num_done_ = 0;
};

}  // namespace meshwork

// The work of simulated GPUs, which is done late (simulated_cuda.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <utility>
#include <vector>

namespace meshwork {

struct SimulatedOp {
  int device = 0;
  std::function<void()> run;
  std::function<bool()> meets;  // of a meeting: returns whether it has ended
  bool is_done = false;
  int64_t done_at = 0;  // number of ops done before
  int64_t num_waits = 0;
  std::vector<std::shared_ptr<SimulatedOp>> next;  // ops that wait for this one
};
using SimulatedOpPtr = std::shared_ptr<SimulatedOp>;

// Ops with dependencies. Ops that wait for nothing are done in random order.
class SimulatedWork {
 public:
  // `before` is called before an op is done.
  SimulatedWork(uint64_t seed, std::function<void()> before) : random_(seed), before_(std::move(before)) {}

  // Null and done ops among `after` are not waited for.
  SimulatedOpPtr Add(int device, std::function<void()> run, const std::vector<SimulatedOpPtr>& after);
  // An op that begins when its turn comes, and ends when its counterparts have come, too: `meets` is called
  // then, and again whenever another op is done or begins, until it returns true.
  SimulatedOpPtr AddMeeting(int device, std::function<bool()> meets,
                            const std::vector<SimulatedOpPtr>& after);
  // Asks all meetings again.
  void Wake();

  // Returns false if no op can be done: there is none, or only meetings are left whose counterparts do not come.
  bool DoOne();
  // Does all ops of this device, or of all devices, that can be done.
  void DoAll(int device);
  void DoAll();
  // Does at least one op if one can be done.
  void DoSome();

  int64_t num_pending() const;

 private:
  SimulatedOpPtr Add(SimulatedOpPtr op, const std::vector<SimulatedOpPtr>& after);

  std::mt19937_64 random_;
  const std::function<void()> before_;
  std::vector<SimulatedOpPtr> ready_,
      meeting_;                   // ops whose turn has come; meetings that have begun
  std::vector<int64_t> pending_;  // per device
  int64_t num_done_ = 0;
};

}  // namespace meshwork

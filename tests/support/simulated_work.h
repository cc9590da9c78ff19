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
  std::function<bool()> meets;  // of a meeting: whether it has ended
  bool is_done = false;
  int64_t done_at = 0;  // how many were done before
  int64_t num_waits = 0;
  std::vector<std::shared_ptr<SimulatedOp>> next;  // ops that wait for this one
};
using SimulatedOpPtr = std::shared_ptr<SimulatedOp>;

// Ops that wait for each other. Those that wait for nothing are done in random order.
class SimulatedWork {
 public:
  // `before` is called before an op is done.
  SimulatedWork(uint64_t seed, std::function<void()> before) : random_(seed), before_(std::move(before)) {}

  // Null and done ops among `after` are not waited for.
  SimulatedOpPtr Add(int device, std::function<void()> run, const std::vector<SimulatedOpPtr>& after);
  // An op that begins when its turn comes and ends when others have come, too: `meets` is asked then, and again whenever
  // something else is done or begins, until it returns true.
  SimulatedOpPtr AddMeeting(int device, std::function<bool()> meets,
                            const std::vector<SimulatedOpPtr>& after);
  // Asks all meetings again.
  void Wake();

  // False if nothing can be done: there is nothing, or all that is left are meetings to which others do not come.
  bool DoOne();
  // Does all that can be done, of this device or of all.
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
      meeting_;                   // those whose turn has come; of meetings, those that have begun
  std::vector<int64_t> pending_;  // per device
  int64_t num_done_ = 0;
};

}  // namespace meshwork

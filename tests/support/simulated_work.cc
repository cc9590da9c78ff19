#include "support/simulated_work.h"

#include <numeric>
#include <utility>

namespace meshwork {

SimulatedOpPtr SimulatedWork::Add(int device, std::function<void()> run,
                                  const std::vector<SimulatedOpPtr>& after) {
  auto op = std::make_shared<SimulatedOp>();
  op->device = device;
  op->run = std::move(run);
  for (const SimulatedOpPtr& before : after) {
    if (before == nullptr || before->is_done) continue;
    before->next.push_back(op);
    ++op->num_waits;
  }
  if (op->num_waits == 0) ready_.push_back(op);
  if (pending_.size() <= static_cast<size_t>(device)) pending_.resize(static_cast<size_t>(device) + 1);
  ++pending_[static_cast<size_t>(device)];
  return op;
}

void SimulatedWork::DoOne() {
  std::swap(ready_[random_() % ready_.size()], ready_.back());
  const SimulatedOpPtr op = std::move(ready_.back());
  ready_.pop_back();
  if (op->run) std::exchange(op->run, nullptr)();
  op->is_done = true;
  op->done_at = num_done_++;
  --pending_[static_cast<size_t>(op->device)];
  for (SimulatedOpPtr& next : std::exchange(op->next, {}))
    if (--next->num_waits == 0) ready_.push_back(std::move(next));
}

void SimulatedWork::DoUntil(const SimulatedOpPtr& op) {
  while (op != nullptr && !op->is_done) DoOne();
}

void SimulatedWork::DoAll(int device) {
  while (static_cast<size_t>(device) < pending_.size() && pending_[static_cast<size_t>(device)] > 0) DoOne();
}

void SimulatedWork::DoAll() {
  while (!ready_.empty()) DoOne();
}

void SimulatedWork::DoSome() {
  for (uint64_t n = 1 + random_() % 3; n > 0 && !ready_.empty(); --n) DoOne();
}

int64_t SimulatedWork::num_pending() const {
  return std::accumulate(pending_.begin(), pending_.end(), int64_t{0});
}

}  // namespace meshwork

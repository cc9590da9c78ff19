#include "support/simulated_work.h"

#include <numeric>
#include <utility>

namespace meshwork {

SimulatedOpPtr SimulatedWork::Add(int device, std::function<void()> run,
                                  const std::vector<SimulatedOpPtr>& after) {
  auto op = std::make_shared<SimulatedOp>();
  op->device = device;
  op->run = std::move(run);
  return Add(std::move(op), after);
}

SimulatedOpPtr SimulatedWork::AddMeeting(int device, std::function<bool()> meets,
                                         const std::vector<SimulatedOpPtr>& after) {
  auto op = std::make_shared<SimulatedOp>();
  op->device = device;
  op->meets = std::move(meets);
  return Add(std::move(op), after);
}

SimulatedOpPtr SimulatedWork::Add(SimulatedOpPtr op, const std::vector<SimulatedOpPtr>& after) {
  for (const SimulatedOpPtr& before : after) {
    if (before == nullptr || before->is_done) continue;
    before->next.push_back(op);
    ++op->num_waits;
  }
  if (op->num_waits == 0) ready_.push_back(op);
  const auto device = static_cast<size_t>(op->device);
  if (pending_.size() <= device) pending_.resize(device + 1);
  ++pending_[device];
  return op;
}

void SimulatedWork::Wake() {
  for (SimulatedOpPtr& op : std::exchange(meeting_, {})) ready_.push_back(std::move(op));
}

bool SimulatedWork::DoOne() {
  while (!ready_.empty()) {
    std::swap(ready_[random_() % ready_.size()], ready_.back());
    const SimulatedOpPtr op = std::move(ready_.back());
    ready_.pop_back();
    before_();
    if (op->meets && !op->meets()) {
      meeting_.push_back(op);
      continue;
    }
    op->meets = nullptr;
    if (op->run) std::exchange(op->run, nullptr)();
    op->is_done = true;
    op->done_at = num_done_++;
    --pending_[static_cast<size_t>(op->device)];
    for (SimulatedOpPtr& next : std::exchange(op->next, {}))
      if (--next->num_waits == 0) ready_.push_back(std::move(next));
    Wake();
    return true;
  }
  return false;
}

void SimulatedWork::DoAll(int device) {
  while (static_cast<size_t>(device) < pending_.size() && pending_[static_cast<size_t>(device)] > 0 &&
         DoOne())
    continue;
}

void SimulatedWork::DoAll() {
  while (DoOne()) continue;
}

void SimulatedWork::DoSome() {
  for (uint64_t n = 1 + random_() % 3; n > 0 && DoOne(); --n) continue;
}

int64_t SimulatedWork::num_pending() const {
  return std::accumulate(pending_.begin(), pending_.end(), int64_t{0});
}

}  // namespace meshwork

#include "meshwork/train/log/step_log.h"

#include <utility>

#include "fmt/format.h"

namespace meshwork {

StepLog::StepLog(int64_t every, std::function<double()> seconds, Log log)
    : every_(every), seconds_(std::move(seconds)), log_(std::move(log)) {}

void StepLog::Step(int64_t step, double loss) {
  if (has_begun_ && step % every_ != 0) return;
  const double now = seconds_(), took = now - said_at_;
  if (has_begun_) {
    if (took > 0) log_(fmt::format("global_step/sec: {:.6g}", static_cast<double>(step - said_step_) / took));
    log_(fmt::format("loss = {:.6g}, step = {} ({:.3f} sec)", loss, step, took));
  } else {
    log_(fmt::format("loss = {:.6g}, step = {}", loss, step));
  }
  has_begun_ = true;
  said_step_ = step;
  said_at_ = now;
}

void StepLog::Apart(const std::function<void()>& f) {
  const double start = seconds_();
  f();
  said_at_ += seconds_() - start;
}

}  // namespace meshwork

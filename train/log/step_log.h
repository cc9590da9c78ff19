// StepLog says how a training goes on, as tf.estimator does:
//
//   loss = 2.3012, step = 1
//   global_step/sec: 81.2
//   loss = 2.1177, step = 100 (1.219 sec)
//
// Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace meshwork {

class StepLog {
 public:
  using Log = std::function<void(std::string_view line)>;

  // Lines after each step whose number is a multiple of `every`, >= 1, and after the first one. `seconds`: a clock.
  StepLog(int64_t every, std::function<double()> seconds, Log log);

  // After step `step`, counted from 1.
  void Step(int64_t step, double loss);
  // Runs f; its time is not the steps'.
  void Apart(const std::function<void()>& f);

 private:
  const int64_t every_;
  const std::function<double()> seconds_;
  const Log log_;
  bool has_begun_ = false;
  int64_t said_step_ = 0;  // when the last lines were written
  double said_at_ = 0;
};

}  // namespace meshwork

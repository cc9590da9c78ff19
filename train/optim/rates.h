// Learning rates: a number, a schedule over the steps, or a value of the graph.
//
//   Sgd({.learning_rate = 0.1});                                                      // a number
//   Adam({.learning_rate = Warmup(500, CosineDecay({.initial = 3e-4, .steps = 10'000}))});
//   Momentum({.learning_rate = g.Input("rate", F32, {}, {})});                        // fed in each step
//   Sgd({.learning_rate = RateSchedule([](const Value& step) { return 1.0 / (10.0 + step); })});
//
// A schedule is computed in the graph, in f64, from the number of the step: 0 at the first one, as in Keras and optax.
// The optimizer keeps this number in its variable "sgd/step", so that a checkpoint has it. In the formulas below t is
// this number.
//
// Mistakes in options are recorded by the optimizer that uses them. Thread safety: values.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"

namespace meshwork {

// A rate as a function of the step.
class RateSchedule {
 public:
  // step: f64 scalar, t -> the rate, a scalar of any float dtype.
  using Function = std::function<Value(const Value& step)>;

  explicit RateSchedule(Function rate, absl::Status options = absl::OkStatus())
      : rate_(std::move(rate)), options_(std::move(options)) {}
  // At `step` (f64 scalar). REQUIRES: options().ok().
  Value operator()(const Value& step) const { return rate_(step); }
  // What is wrong with the options, if anything.
  const absl::Status& options() const { return options_; }

 private:
  Function rate_;
  absl::Status options_;
};

// The learning rate of an optimizer.
class Rate {
 public:
  Rate(double number) : number_(number) {}         // NOLINT: implicit
  Rate(Value value) : value_(std::move(value)) {}  // NOLINT: implicit; a scalar of a float dtype
  Rate(RateSchedule schedule) : schedule_(std::move(schedule)) {}  // NOLINT: implicit
  bool is_number() const { return number_.has_value(); }
  double number() const { return *number_; }  // REQUIRES: is_number()
  const std::optional<RateSchedule>& schedule() const { return schedule_; }
  const Value& value() const { return value_; }

  // Error: a number that is negative or not finite; the schedule's options; a value that is no float scalar.
  absl::Status Check(std::string_view name) const;

 private:
  std::optional<double> number_;
  std::optional<RateSchedule> schedule_;
  Value value_;
};

// ---- Schedules. All numbers of steps are above 0, all rates at least 0, unless stated otherwise.

// rates[i] from step boundaries[i - 1] on, before step boundaries[i]; rates has one element more than boundaries, which
// ascend.
RateSchedule PiecewiseConstant(std::vector<int64_t> boundaries, std::vector<double> rates);

struct ExponentialDecayOptions {
  double initial = 0.1;
  double factor = 0.1;     // above 0
  int64_t steps = 1;       // in which the rate gets smaller by `factor`
  bool staircase = false;  // all at once, at the end of each `steps`
};
// initial · factor^(t / steps).
RateSchedule ExponentialDecay(const ExponentialDecayOptions& options);

struct InverseTimeDecayOptions {
  double initial = 0.1;
  double factor = 1;  // at least 0
  int64_t steps = 1;
  bool staircase = false;
};
// initial / (1 + factor · t / steps).
RateSchedule InverseTimeDecay(const InverseTimeDecayOptions& options);

struct PolynomialDecayOptions {
  double initial = 0.1;
  double final = 0;
  int64_t steps = 1;
  double power = 1;  // above 0; 1: along a line
};
// (initial - final) · (1 - min(t, steps) / steps)^power + final.
RateSchedule PolynomialDecay(const PolynomialDecayOptions& options);

struct CosineDecayOptions {
  double initial = 0.1;
  double final = 0;
  int64_t steps = 1;
};
// final + (initial - final) · (1 + cos(π min(t, steps) / steps)) / 2 (Loshchilov and Hutter, arXiv 1608.03983, equation
// 5).
RateSchedule CosineDecay(const CosineDecayOptions& options);

struct CosineRestartsOptions {
  double initial = 0.1;
  double final = 0;
  int64_t steps = 1;  // of the first period
  double longer = 1;  // each period is so many times as long as the one before; at least 1
  double lower = 1;   // and begins so many times as high; above 0
};
// CosineDecay, again and again (the same paper).
RateSchedule CosineRestarts(const CosineRestartsOptions& options);

// Goes along a line from `from` to the first rate of `then`, in `steps` steps; then follows `then`, from its own step
// 0.
RateSchedule Warmup(int64_t steps, const Rate& then, double from = 0);

struct OneCycleOptions {
  double peak = 0.1;
  int64_t steps = 1;            // of the whole cycle, at least 2
  double rising = 0.3;          // the share of the steps until the peak, in (0, 1)
  double initial_share = 0.04;  // of the peak, at the start
  double final_share = 4e-6;    // of the peak, at the end
};
// Rises and falls by half a cosine each: the peak is at step rising · steps - 1, the end at step steps - 1 and later
// (Smith and Topin, arXiv 1708.07120; torch.optim.lr_scheduler.OneCycleLR, with its defaults).
RateSchedule OneCycle(const OneCycleOptions& options);

// rates[i] from step boundaries[i - 1] on, each counted from its own step 0; rates has one element more than
// boundaries, which ascend.
RateSchedule JoinSchedules(std::vector<int64_t> boundaries, std::vector<Rate> rates);

// The rate at step t, by the formulas above, computed on the CPU: to plot a schedule, or to try it. Errors: the
// schedule's options; what it computes is no float scalar.
absl::StatusOr<double> RateAt(const Rate& rate, int64_t step);

}  // namespace meshwork

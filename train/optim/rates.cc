#include "meshwork/train/optim/rates.h"

#include <cmath>
#include <numbers>

#include "meshwork/base/first_failure.h"
#include "meshwork/base/status.h"
#include "meshwork/ops/hyperparameters.h"
#include "meshwork/ops/ops.h"
#include "meshwork/session/session.h"

namespace meshwork {
namespace {

Value Number(const Value& step, double number) { return Constant(*step.graph(), number, {F64, {}}); }

Value Float(int64_t number, const Value& step) { return Number(step, static_cast<double>(number)); }

// The value of `rate` at `step`, f64.
Value At(const Rate& rate, const Value& step) {
  if (rate.is_number()) return Number(step, rate.number());
  return InDType(rate.schedule().has_value() ? (*rate.schedule())(step) : rate.value(), F64);
}

// The share of `steps` that is over: 0 at first, 1 in the end and later.
Value ShareOf(int64_t steps, const Value& step) { return Minimum(step / static_cast<double>(steps), 1.0); }

// From low + height at share 0 to low at share 1, by half a cosine.
Value HalfCosine(double low, const Operand& height, const Value& share) {
  return low + height * ((1.0 + Cos(share * std::numbers::pi)) * 0.5);
}

absl::Status CheckSteps(std::string_view name, int64_t steps) {
  if (steps >= 1) return absl::OkStatus();
  return InvalidArgument("{}={} is less than 1; give the number of steps that it takes.", name, steps);
}

absl::Status Of(std::string_view schedule, const absl::Status& status) {
  return Annotate(status, fmt::format("{}: ", schedule));
}

absl::Status CheckPhases(const std::vector<int64_t>& boundaries, size_t rates) {
  if (rates != boundaries.size() + 1)
    return InvalidArgument("boundaries has {} and rates {}; rates must have one more.",
                           Count(std::ssize(boundaries), "element"), rates);
  for (size_t i = 0; i < boundaries.size(); ++i) {
    const int64_t before = i == 0 ? 0 : boundaries[i - 1];
    if (boundaries[i] <= before)
      return InvalidArgument("boundaries[{}]={} is not above {}; boundaries ascend, from 1.", i,
                             boundaries[i], before);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Rate::Check(std::string_view name) const {
  if (is_number()) return CheckNotNegative(name, *number_);
  if (schedule_.has_value()) return Annotate(schedule_->options(), fmt::format("{}: ", name));
  if (!value_.valid() || (value_.rank() == 0 && IsFloat(value_.dtype()))) return absl::OkStatus();
  return InvalidArgument("{} is {}; it must be a scalar f32[], f64[] or bf16[].", name,
                         value_.type().ToString());
}

RateSchedule PiecewiseConstant(std::vector<int64_t> boundaries, std::vector<double> rates) {
  absl::Status status = CheckPhases(boundaries, rates.size());
  for (size_t i = 0; i < rates.size(); ++i)
    status.Update(CheckNotNegative(fmt::format("rates[{}]", i), rates[i]));
  if (!status.ok()) return RateSchedule(nullptr, Of("PiecewiseConstant", status));
  std::vector<Rate> phases(rates.begin(), rates.end());
  return JoinSchedules(std::move(boundaries), std::move(phases));
}

RateSchedule ExponentialDecay(const ExponentialDecayOptions& o) {
  return RateSchedule(
      [o](const Value& step) {
        const Value periods = step / static_cast<double>(o.steps);
        return o.initial * Pow(o.factor, o.staircase ? Floor(periods) : periods);
      },
      Of("ExponentialDecay",
         FirstFailure({CheckNotNegative("initial", o.initial), CheckPositive("factor", o.factor),
                       CheckSteps("steps", o.steps)})));
}

RateSchedule InverseTimeDecay(const InverseTimeDecayOptions& o) {
  return RateSchedule(
      [o](const Value& step) {
        const Value periods = step / static_cast<double>(o.steps);
        return o.initial / (1.0 + o.factor * (o.staircase ? Floor(periods) : periods));
      },
      Of("InverseTimeDecay",
         FirstFailure({CheckNotNegative("initial", o.initial), CheckNotNegative("factor", o.factor),
                       CheckSteps("steps", o.steps)})));
}

RateSchedule PolynomialDecay(const PolynomialDecayOptions& o) {
  return RateSchedule(
      [o](const Value& step) {
        return (o.initial - o.final) * Pow(1.0 - ShareOf(o.steps, step), o.power) + o.final;
      },
      Of("PolynomialDecay",
         FirstFailure({CheckNotNegative("initial", o.initial), CheckNotNegative("final", o.final),
                       CheckPositive("power", o.power), CheckSteps("steps", o.steps)})));
}

RateSchedule CosineDecay(const CosineDecayOptions& o) {
  return RateSchedule(
      [o](const Value& step) { return HalfCosine(o.final, o.initial - o.final, ShareOf(o.steps, step)); },
      Of("CosineDecay", FirstFailure({CheckNotNegative("initial", o.initial),
                                      CheckNotNegative("final", o.final), CheckSteps("steps", o.steps)})));
}

RateSchedule CosineRestarts(const CosineRestartsOptions& o) {
  absl::Status longer = CheckFinite("longer", o.longer);
  if (longer.ok() && o.longer < 1)
    longer = InvalidArgument("longer={} is less than 1; 1 keeps all periods as long.", o.longer);
  return RateSchedule(
      [o](const Value& step) {
        const Value periods = step / static_cast<double>(o.steps);
        Value number = Floor(periods), share = periods - number;
        if (o.longer != 1) {
          // Period n begins after (longer^n - 1) / (longer - 1) first periods; there a logarithm may be rounded down.
          number = Floor(Log(1.0 + periods * (o.longer - 1)) / std::log(o.longer) + 1e-9);
          const Value length = Pow(o.longer, number);
          share = (periods - (length - 1.0) / (o.longer - 1)) / length;
        }
        return HalfCosine(o.final, (o.initial - o.final) * Pow(o.lower, number), share);
      },
      Of("CosineRestarts",
         FirstFailure({CheckNotNegative("initial", o.initial), CheckNotNegative("final", o.final),
                       CheckSteps("steps", o.steps), longer, CheckPositive("lower", o.lower)})));
}

RateSchedule Warmup(int64_t steps, const Rate& then, double from) {
  return RateSchedule(
      [steps, then, from](const Value& step) {
        const Value share = step / static_cast<double>(steps);
        const Value rising = from + (At(then, Number(step, 0)) - from) * share;
        return Select(Less(share, 1.0), rising, At(then, Maximum(step - static_cast<double>(steps), 0.0)));
      },
      Of("Warmup",
         FirstFailure({CheckSteps("steps", steps), then.Check("then"), CheckNotNegative("from", from)})));
}

RateSchedule OneCycle(const OneCycleOptions& o) {
  const auto steps = static_cast<double>(o.steps);
  absl::Status rising = CheckFinite("rising", o.rising);
  if (rising.ok() && !(o.rising * steps > 1 && o.rising < 1))
    rising =
        InvalidArgument("rising={} is not between 1 / steps = {} and 1; give more steps, or another share.",
                        o.rising, 1 / steps);
  return RateSchedule(
      [o, steps](const Value& step) {
        const double top = o.rising * steps - 1, end = steps - 1;
        const double low = o.peak * o.initial_share, last = o.peak * o.final_share;
        const Value t = Minimum(step, end);
        return Select(Less(t, top), HalfCosine(o.peak, low - o.peak, t / top),
                      HalfCosine(last, o.peak - last, (t - top) / (end - top)));
      },
      Of("OneCycle", FirstFailure({CheckNotNegative("peak", o.peak), CheckSteps("steps", o.steps), rising,
                                   CheckNotNegative("initial_share", o.initial_share),
                                   CheckNotNegative("final_share", o.final_share)})));
}

RateSchedule JoinSchedules(std::vector<int64_t> boundaries, std::vector<Rate> rates) {
  absl::Status status = CheckPhases(boundaries, rates.size());
  for (size_t i = 0; i < rates.size(); ++i) status.Update(rates[i].Check(fmt::format("rates[{}]", i)));
  return RateSchedule(
      [boundaries = std::move(boundaries), rates = std::move(rates)](const Value& step) {
        Value joined = At(rates[0], step);
        for (size_t i = 0; i < boundaries.size(); ++i) {
          const auto begin = static_cast<double>(boundaries[i]);
          joined = Select(Less(step, begin), joined, At(rates[i + 1], Maximum(step - begin, 0.0)));
        }
        return joined;
      },
      Of("JoinSchedules", status));
}

absl::StatusOr<double> RateAt(const Rate& rate, int64_t step) {
  MESHWORK_RETURN_IF_ERROR(Of("RateAt", rate.Check("rate")));
  if (rate.is_number()) return rate.number();
  if (!rate.schedule().has_value())
    return absl::InvalidArgumentError(
        "RateAt: a value of a graph is known in its steps only; make it an output.");
  Graph graph{Mesh()};
  graph.Output("rate", (*rate.schedule())(Float(step, Constant(graph, 0.0, {F64, {}}))));
  MESHWORK_ASSIGN_OR_RETURN(Session session, Session::Create(graph, {.workers = 1, .own_cores = false}));
  MESHWORK_ASSIGN_OR_RETURN(const StepResult result, session.Run({}));
  return result.scalar("rate");
}

}  // namespace meshwork

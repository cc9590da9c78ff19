// Normalisations and norms in terms of rows; their partitioning and gradients follow from those.
#include <algorithm>
#include <numeric>
#include <optional>

#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ops/hyperparameters.h"
#include "meshwork/ops/ops.h"

namespace meshwork {
namespace {

// Whether scales and statistics of `dtype` go with x: they have x's dtype, or f32 if x is bf16.
bool Goes(DType dtype, DType x) { return dtype == x || dtype == WideDType(x); }

// In the dtype that statistics are computed in, f32 for bf16.
Value Wide(const Value& x) { return InDType(x, WideDType(x.dtype())); }

// The last dims of x, as many as `scale` has; nothing after recording a mistake.
std::optional<std::vector<int64_t>> NormalizedDims(const ResolvedOperands& at, std::string_view op) {
  const Type &x = at.values[0].type(), &scale = at.values[1].type();
  bool fits = IsFloat(x.dtype) && scale.rank() >= 1 && scale.rank() <= x.rank();
  for (size_t i = 1; i < at.values.size(); ++i)
    fits = fits && at.values[i].shape() == scale.shape && Goes(at.values[i].dtype(), x.dtype);
  fits = fits && std::equal(scale.shape.rbegin(), scale.shape.rend(), x.shape.rbegin());
  if (!fits) {
    RecordMistake(at, op, "x is {}, scale {}{}; x must be floats, {} as x's last dims.", x.ToString(),
                  scale.ToString(), at.values.size() > 2 ? ", offset " + at.values[2].type().ToString() : "",
                  at.values.size() > 2 ? "scale and offset" : "scale");
    return std::nullopt;
  }
  std::vector<int64_t> dims(scale.rank());
  std::iota(dims.begin(), dims.end(), x.rank() - scale.rank());
  return dims;
}

bool CheckEpsilon(const ResolvedOperands& at, std::string_view op, double epsilon) {
  const absl::Status status = CheckNotNegative("epsilon", epsilon);
  if (!status.ok()) RecordMistake(at, op, "{}", MessageOf(status));
  return status.ok();
}

// x / sqrt(mean(x²) + epsilon)
Value OverRootMeanSquare(const Value& x, const DimList& dims, double epsilon) {
  return Mul(x, Rsqrt(Add(ReduceMean(Square(x), dims, /*keep_dims=*/true), epsilon)));
}

}  // namespace

Value Standardize(const Operand& x, const DimList& dims, double epsilon) {
  const ResolvedOperands at = Resolve({x});
  if (at.graph == nullptr || !CheckEpsilon(at, "standardize", epsilon)) return {};
  const LocationScope scope(*at.graph, at.location);
  const Value v = Wide(at.values[0]);
  const Value centered = Sub(v, ReduceMean(v, dims, /*keep_dims=*/true));
  if (!centered.valid()) return {};
  return InDType(OverRootMeanSquare(centered, dims, epsilon), at.values[0].dtype());
}

Value LayerNorm(const Operand& x, const Operand& scale, const Operand& offset, double epsilon) {
  const ResolvedOperands at = Resolve({x, scale, offset});
  if (at.graph == nullptr || !CheckEpsilon(at, "layer_norm", epsilon)) return {};
  const LocationScope scope(*at.graph, at.location);
  const auto dims = NormalizedDims(at, "layer_norm");
  if (!dims.has_value()) return {};
  const Value y = Mul(Standardize(Wide(at.values[0]), *dims, epsilon), Wide(at.values[1]));
  return InDType(Add(y, Wide(at.values[2])), at.values[0].dtype());
}

Value RmsNorm(const Operand& x, const Operand& scale, double epsilon) {
  const ResolvedOperands at = Resolve({x, scale});
  if (at.graph == nullptr || !CheckEpsilon(at, "rms_norm", epsilon)) return {};
  const LocationScope scope(*at.graph, at.location);
  const auto dims = NormalizedDims(at, "rms_norm");
  if (!dims.has_value()) return {};
  const Value y = OverRootMeanSquare(Wide(at.values[0]), *dims, epsilon);
  return InDType(Mul(y, Wide(at.values[1])), at.values[0].dtype());
}

namespace {

std::vector<int64_t> AllButLast(const Value& x) {
  std::vector<int64_t> dims(std::max(x.rank() - 1, 0));
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

// Whether x: [..,c] has floats and the others are [c]; records a mistake if not.
bool CheckChannels(const ResolvedOperands& at, std::string_view op, int least_rank) {
  const Type& x = at.values[0].type();
  bool fits = IsFloat(x.dtype) && x.rank() >= least_rank;
  for (size_t i = 1; i < at.values.size() && fits; ++i)
    fits = at.values[i].shape() == Shape{x.shape.back()} && Goes(at.values[i].dtype(), x.dtype);
  if (fits) return true;
  std::string others;
  for (size_t i = 1; i < at.values.size(); ++i) others += ", " + at.values[i].type().ToString();
  RecordMistake(at, op, "x is {}, the others {}; x must be floats {}, the others [c].", x.ToString(),
                others.substr(2), least_rank > 2 ? "[n, spatial…, c]" : "[…, c]");
  return false;
}

}  // namespace

BatchNormResult BatchNorm(const Operand& x, const Operand& scale, const Operand& offset, double epsilon) {
  const ResolvedOperands at = Resolve({x, scale, offset});
  if (at.graph == nullptr || !CheckEpsilon(at, "batch_norm", epsilon)) return {};
  if (!CheckChannels(at, "batch_norm", 2)) return {};
  const LocationScope scope(*at.graph, at.location);
  const Value v = Wide(at.values[0]);
  const std::vector<int64_t> dims = AllButLast(v);
  const auto mean_of = [&](const Value& x) {
    const BatchView* const batch = at.graph->batch_view();
    return batch == nullptr ? ReduceMean(x, dims, /*keep_dims=*/true) : batch->mean(x, dims);
  };
  const Value mean = mean_of(v);
  const Value centered = Sub(v, mean);
  const Value variance = mean_of(Square(centered));
  const Value y = Mul(centered, Rsqrt(Add(variance, epsilon)));
  if (!y.valid()) return {};
  return {InDType(Add(Mul(y, Wide(at.values[1])), Wide(at.values[2])), at.values[0].dtype()),
          Squeeze(mean, dims), Squeeze(variance, dims)};
}

Value BatchNormInference(const Operand& x, const Operand& scale, const Operand& offset, const Operand& mean,
                         const Operand& variance, double epsilon) {
  const ResolvedOperands at = Resolve({x, scale, offset, mean, variance});
  if (at.graph == nullptr || !CheckEpsilon(at, "batch_norm_inference", epsilon)) return {};
  if (!CheckChannels(at, "batch_norm_inference", 2)) return {};
  const LocationScope scope(*at.graph, at.location);
  const Value factor = Mul(Wide(at.values[1]), Rsqrt(Add(Wide(at.values[4]), epsilon)));
  const Value y = Mul(Sub(Wide(at.values[0]), Wide(at.values[3])), factor);
  return InDType(Add(y, Wide(at.values[2])), at.values[0].dtype());
}

Value MovingAverage(const Operand& average, const Operand& value, double decay) {
  const ResolvedOperands at = Resolve({average, value});
  if (at.graph == nullptr) return {};
  if (const absl::Status status = CheckDecay("decay", decay); !status.ok()) {
    RecordMistake(at, "moving_average", "{}", MessageOf(status));
    return {};
  }
  const LocationScope scope(*at.graph, at.location);
  return StopGradient(Add(Mul(at.values[0], decay), Mul(at.values[1], 1 - decay)));
}

Value GroupNorm(const Operand& x, const Operand& scale, const Operand& offset, int64_t groups,
                double epsilon) {
  const ResolvedOperands at = Resolve({x, scale, offset});
  if (at.graph == nullptr || !CheckEpsilon(at, "group_norm", epsilon)) return {};
  if (!CheckChannels(at, "group_norm", 3)) return {};
  const Type type = at.values[0].type();
  if (groups < 1 || type.shape.back() % groups != 0) {
    RecordMistake(at, "group_norm", "groups={} must divide the {} channels of {}.", groups, type.shape.back(),
                  type.ToString());
    return {};
  }
  const LocationScope scope(*at.graph, at.location);
  Shape grouped = type.shape;
  grouped.back() = groups;
  grouped.push_back(type.shape.back() / groups);
  std::vector<int64_t> dims(type.rank() - 2);
  std::iota(dims.begin(), dims.end(), 1);
  dims.push_back(type.rank());
  const Value y = Reshape(Standardize(Reshape(Wide(at.values[0]), grouped), dims, epsilon), type.shape);
  return InDType(Add(Mul(y, Wide(at.values[1])), Wide(at.values[2])), type.dtype);
}

Value GlobalNorm(std::span<const Value> tensors, CallSite loc) {
  if (tensors.empty()) return {};
  DType dtype = F32;  // bf16 squares would lose most of their sum
  for (const Value& tensor : tensors) {
    if (!tensor.valid()) return {};
    if (!IsFloat(tensor.dtype())) {
      tensor.graph()->RecordError(fmt::format("{}: takes f32, f64 or bf16, got {}; cast it.",
                                              tensor.graph()->Describe("global_norm", loc),
                                              tensor.type().ToString()));
      return {};
    }
    if (tensor.dtype() == F64) dtype = F64;
  }
  const LocationScope scope(*tensors[0].graph(), loc);
  Value sum;
  for (const Value& tensor : tensors) {
    const Value x = InDType(tensor, dtype);
    const Value square = ReduceSum(Square(x));
    sum = sum.valid() ? Add(sum, square) : square;
  }
  return Sqrt(sum);
}

std::vector<Value> ClipByGlobalNorm(std::span<const Value> gradients, double clip_norm, CallSite loc) {
  const Value norm = GlobalNorm(gradients, loc);
  if (!norm.valid()) return std::vector<Value>(gradients.size());
  Graph& graph = *norm.graph();
  // Checked in the dtype of the norm: a clip_norm that rounds to 0 or inf there would turn a norm of 0 into
  // NaN.
  const double rounded = norm.dtype() == F64 ? clip_norm : static_cast<float>(clip_norm);
  if (const absl::Status status = CheckPositive("clip_norm", rounded); !status.ok()) {
    graph.RecordError(fmt::format("{}: {}", graph.Describe("clip_by_global_norm", loc), MessageOf(status)));
    return std::vector<Value>(gradients.size());
  }
  const LocationScope scope(graph, loc);
  // The last term is 0, or NaN if the norm is not finite: then every gradient is to be NaN, not a mix of
  // zeros and NaN.
  const Value factor = Add(Div(clip_norm, Maximum(norm, clip_norm)), Mul(norm, 0.0));
  std::vector<Value> clipped;
  for (const Value& gradient : gradients) clipped.push_back(Mul(gradient, InDType(factor, gradient.dtype())));
  return clipped;
}

}  // namespace meshwork

// The optimizer family: one row per update rule, so that a weight and its state are swept once.
#include <algorithm>
#include <cmath>

#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/kernels/elementwise.h"
#include "meshwork/kernels/stack.h"
#include "meshwork/ops/families.h"
#include "meshwork/ops/hyperparameters.h"
#include "meshwork/ops/ops.h"

namespace meshwork {
namespace {

absl::StatusOr<std::vector<Type>> InferAdam(const OpView& view) {
  const Type& weight = view.operands[0];
  if (!IsFloat(weight.dtype))
    return InvalidArgument("the weight must be f32, f64 or bf16, got {}.", weight.ToString());
  auto attr = [&](std::string_view name) { return view.attrs.Get<double>(name); };
  MESHWORK_RETURN_IF_ERROR(CheckFinite("learning_rate", attr("learning_rate")));
  for (std::string_view beta : {"beta1", "beta2"}) MESHWORK_RETURN_IF_ERROR(CheckDecay(beta, attr(beta)));
  for (std::string_view name : {"epsilon", "weight_decay"})
    MESHWORK_RETURN_IF_ERROR(CheckNotNegative(name, attr(name)));
  constexpr std::string_view kNames[] = {"weight", "gradient", "first moment", "second moment"};
  for (int i = 1; i < 4; ++i) {
    if (view.operands[i] != weight)
      return InvalidArgument("the {} is {}, the weight {}; they must agree.", kNames[i],
                             view.operands[i].ToString(), weight.ToString());
  }
  if (view.operands[4] != Type{I64, {}})
    return InvalidArgument("the step must be i64[], got {}; give a variable that counts steps.",
                           view.operands[4].ToString());
  if (view.operands.size() == 6 && view.operands[5] != Type{F64, {}})
    return InvalidArgument("the rate must be f64[], got {}.", view.operands[5].ToString());
  return std::vector<Type>(3, weight);
}

Rule AdamRule(const OpView& view) {
  std::string t;
  for (int d = 0; d < view.operands[0].rank(); ++d) t += static_cast<char>('a' + d);
  const std::string_view scalars = view.operands.size() == 6 ? "," : "";
  return MakeRule(fmt::format("{0},{0},{0},{0},{1}->{0},{0},{0}", t, scalars), view.operands, view.results);
}

// The step in terms of other ops: what AdamKernel computes, element by element.
std::vector<Value> AdamForm(const std::vector<Value>& in, const Attrs& attrs) {
  const DType dtype = in[0].dtype() == F64 ? F64 : F32;
  const auto wide = [&](const Value& x) { return InDType(x, dtype); };
  const Value w = wide(in[0]), g = wide(in[1]);
  auto attr = [&](std::string_view name) { return attrs.Get<double>(name); };
  const double b1 = attr("beta1"), b2 = attr("beta2");
  Graph& graph = *w.graph();
  Value lr = Constant(graph, attr("learning_rate"), {F64, {}});
  if (in.size() == 6) lr = Mul(lr, in[5]);
  const Value step = Cast(in[4], F64);
  const auto missing = [&](double beta) { return Sub(1.0, Pow(Constant(graph, beta, {F64, {}}), step)); };
  const Value rate = wide(Div(lr, missing(b1))), root = wide(Rsqrt(missing(b2)));
  const Value m = Add(Mul(wide(in[2]), b1), Mul(g, 1 - b1));
  const Value v = Add(Mul(wide(in[3]), b2), Mul(Mul(g, g), 1 - b2));
  const Value moved = Div(Mul(rate, m), Add(Mul(Sqrt(v), root), attr("epsilon")));
  const Value next = Sub(Mul(w, wide(Sub(1.0, Mul(lr, attr("weight_decay"))))), moved);
  std::vector<Value> results = {next, m, v};
  for (Value& x : results) x = InDType(x, in[0].dtype());
  return results;
}
std::vector<Value> AdamGrad(const GradView& view) {
  return GradientOfForm(view,
                        [&](const std::vector<Value>& operands) { return AdamForm(operands, view.attrs); });
}

double AdamFlops(const OpView& view) { return 13.0 * static_cast<double>(view.operands[0].num_elements()); }

// Kingma and Ba, "Adam", Algorithm 1 (arXiv 1412.6980). The bias corrections are computed in double
// and folded: w -= (lr/(1-b1^t)) m / (sqrt(v)/sqrt(1-b2^t) + eps). The decay of Loshchilov and Hutter,
// "Decoupled Weight Decay Regularization", Algorithm 2 (arXiv 1711.05101): w is first shrunk by lr times
// weight_decay; by exactly 1 where that is 0. The learning rate is an attribute, times the last operand where there is one.
template <typename Element>
Kernel AdamKernel(const KernelSpec& spec) {
  using T = Compute<Element>;
  const double learning_rate = spec.attrs.Get<double>("learning_rate");
  const double weight_decay = spec.attrs.Get<double>("weight_decay");
  const bool has_rate = spec.operands.size() == 6;
  const double b1 = spec.attrs.Get<double>("beta1"), b2 = spec.attrs.Get<double>("beta2");
  const T epsilon = static_cast<T>(spec.attrs.Get<double>("epsilon"));
  return {
      .run = OnThisCpu([=](const KernelArgs& args) {
        const auto step = static_cast<double>(*args.In<int64_t>(4));
        const double lr = has_rate ? learning_rate * *args.In<double>(5) : learning_rate;
        const T keep = static_cast<T>(1 - lr * weight_decay);
        const T rate = static_cast<T>(lr / (1 - std::pow(b1, step)));
        const T root = static_cast<T>(1 / std::sqrt(1 - std::pow(b2, step)));
        const T keep1 = static_cast<T>(b1), add1 = static_cast<T>(1 - b1);
        const T keep2 = static_cast<T>(b2), add2 = static_cast<T>(1 - b2);
        const Element *w = args.In<Element>(0), *g = args.In<Element>(1);
        const Element *m = args.In<Element>(2), *v = args.In<Element>(3);
        Element *w_out = args.Out<Element>(0), *m_out = args.Out<Element>(1), *v_out = args.Out<Element>(2);
        const int64_t begin = args.begin, end = args.end;
        MESHWORK_INDEPENDENT
        for (int64_t i = begin; i < end; ++i) {
          const T gradient = Load<Element>(g[i]);
          const T m_new = keep1 * Load<Element>(m[i]) + add1 * gradient;
          const T v_new = keep2 * Load<Element>(v[i]) + add2 * gradient * gradient;
          const T weight = keep * Load<Element>(w[i]) - rate * m_new / (std::sqrt(v_new) * root + epsilon);
          m_out[i] = static_cast<Element>(m_new);
          v_out[i] = static_cast<Element>(v_new);
          w_out[i] = static_cast<Element>(weight);
        }
      }),
      .units = spec.results[0].local.num_elements(),
      .by_rows = true,
      .parts = std::vector<int64_t>(4, spec.results[0].local.num_elements())};
}

Kernel AdamCpu(const KernelSpec& spec) {
  return Dispatch(spec.results[0].local.dtype, [&](auto zero) -> Kernel {
    if constexpr (kIsReal<decltype(zero)>) return AdamKernel<decltype(zero)>(spec);
    else return {};
  });
}

// The weight, its gradient and its moments are walked alike; the step and the rate are one for all.
std::optional<KernelSpec> StackUpdate(const KernelSpec& spec, const StackDims& dims) {
  for (const StackDim& dim : dims)
    if (std::any_of(dim.varies.begin() + 4, dim.varies.begin() + std::ssize(spec.operands),
                    [](bool v) { return v; }) ||
        !std::all_of(dim.varies.begin(), dim.varies.begin() + 4, [](bool v) { return v; }))
      return std::nullopt;
  return StackBroadcast(spec, dims);
}

}  // namespace

std::span<const OpRow> OptimizerOps() {
  static const auto* rows = new std::vector<OpRow>{
      {.name = "adam_update",
       .doc =
           "weight, gradient, first and second moment, step (from 1), rate that multiplies the learning rate -> "
           "new weight and moments",
       .num_operands = 5,
       .optional_operands = 1,
       .num_results = 3,
       .attrs = {{"learning_rate", AttrKind::kFloat},
                 {"beta1", AttrKind::kFloat, 0.9},
                 {"beta2", AttrKind::kFloat, 0.999},
                 {"epsilon", AttrKind::kFloat, 1e-8},
                 {"weight_decay", AttrKind::kFloat, 0.0}},
       .infer = InferAdam,
       .rule = AdamRule,
       .grad = AdamGrad,
       .flops = AdamFlops,
       .cpu = AdamCpu,
       .stack = StackUpdate,
       .is_light = true,
       .in_place = {0, 2, 3},
       .samples =
           {"f32[4,6], f32[4,6], f32[4,6], f32[4,6], i64[]; learning_rate=0.001",
            "f64[5], f64[5], f64[5], f64[5], i64[]; learning_rate=0.1 epsilon=1e-5",
            "f32[4,6], f32[4,6], f32[4,6], f32[4,6], i64[]; learning_rate=0.1 weight_decay=0.5",
            "f32[4,6], f32[4,6], f32[4,6], f32[4,6], i64[], f64[]; learning_rate=0.1 weight_decay=0.5"},
       .sample_low = 0.1,
       .sample_high = 1},
  };
  return *rows;
}

AdamResult AdamUpdate(const Value& weight, const Value& gradient, const Value& first_moment,
                      const Value& second_moment, const Value& step, const Operand& learning_rate,
                      double beta1, double beta2, double epsilon, double weight_decay, CallSite loc) {
  if (!weight.valid()) return {};
  std::vector<Value> operands = {weight, gradient, first_moment, second_moment, step};
  if (!learning_rate.is_number()) operands.push_back(InDType(learning_rate.value(), F64));
  const std::vector<Value> r =
      weight.graph()->Add("adam_update", operands,
                          {{"learning_rate", learning_rate.is_number() ? learning_rate.number() : 1.0},
                           {"beta1", beta1},
                           {"beta2", beta2},
                           {"epsilon", epsilon},
                           {"weight_decay", weight_decay}},
                          loc);
  return {r[0], r[1], r[2]};
}

}  // namespace meshwork

// The optimizer family: one row per update rule, so that a weight and its state are swept once.
#include <algorithm>
#include <cmath>

#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ops/families.h"
#include "meshwork/ops/hyperparameters.h"
#include "meshwork/ops/kernels/elementwise.h"
#include "meshwork/ops/kernels/stack.h"
#include "meshwork/ops/ops.h"
#include "meshwork/ops/update_rows.h"

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

// The step in terms of other ops, element by element the same as AdamKernel. A lazy step jumps where the gradient is 0,
// as the moments stay there: its slope by the gradient is taken as 0 at such an element.
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
  const bool is_lazy = attrs.Get<bool>("lazy");
  const Value stays = is_lazy ? Equal(in[1], 0.0) : Value();
  // The root of 0 has no finite slope, which would be NaN behind the Selects below.
  const Value rooted = Sqrt(is_lazy ? Select(stays, 1.0, v) : v);
  const Value moved = Div(Mul(rate, m), Add(Mul(rooted, root), attr("epsilon")));
  const Value next = Sub(Mul(w, wide(Sub(1.0, Mul(lr, attr("weight_decay"))))), moved);
  std::vector<Value> results = {next, m, v};
  const std::vector<Value> olds = {in[0], in[2], in[3]};
  for (size_t r = 0; r < results.size(); ++r) {
    results[r] = InDType(results[r], in[0].dtype());
    if (is_lazy) results[r] = Select(stays, olds[r], results[r]);
  }
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
// weight_decay; by exactly 1 where that is 0. The learning rate is an attribute, times the last operand where there is
// one. Lazy: where the gradient is 0 nothing changes.
template <typename Element>
Kernel AdamKernel(const KernelSpec& spec) {
  using T = Compute<Element>;
  const double learning_rate = spec.attrs.Get<double>("learning_rate");
  const double weight_decay = spec.attrs.Get<double>("weight_decay");
  const bool has_rate = spec.operands.size() == 6, is_lazy = spec.attrs.Get<bool>("lazy");
  const double b1 = spec.attrs.Get<double>("beta1"), b2 = spec.attrs.Get<double>("beta2");
  const T epsilon = static_cast<T>(spec.attrs.Get<double>("epsilon"));
  return {
      .run = OnThisCpu<kMostLevel<T>>([=](const KernelArgs& args) {
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
          const bool stays = is_lazy && gradient == T(0);
          m_out[i] = stays ? m[i] : static_cast<Element>(m_new);
          v_out[i] = stays ? v[i] : static_cast<Element>(v_new);
          w_out[i] = stays ? w[i] : static_cast<Element>(weight);
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

// The weight, its gradient and its state, the first `own` operands, are walked alike; the step and the rate are one for
// all.
template <int own>
std::optional<KernelSpec> StackUpdate(const KernelSpec& spec, const StackDims& dims) {
  for (const StackDim& dim : dims)
    if (std::any_of(dim.varies.begin() + own, dim.varies.begin() + std::ssize(spec.operands),
                    [](bool v) { return v; }) ||
        !std::all_of(dim.varies.begin(), dim.varies.begin() + own, [](bool v) { return v; }))
      return std::nullopt;
  return StackBroadcast(spec, dims);
}

// ---- adagrad_update

absl::StatusOr<std::vector<Type>> InferAdagrad(const OpView& view) {
  const Type& weight = view.operands[0];
  if (!IsFloat(weight.dtype))
    return InvalidArgument("the weight must be f32, f64 or bf16, got {}.", weight.ToString());
  MESHWORK_RETURN_IF_ERROR(CheckFinite("learning_rate", view.attrs.Get<double>("learning_rate")));
  MESHWORK_RETURN_IF_ERROR(CheckNotNegative("epsilon", view.attrs.Get<double>("epsilon")));
  constexpr std::string_view kNames[] = {"weight", "gradient", "accumulator"};
  for (int i = 1; i < 3; ++i)
    if (view.operands[i] != weight)
      return InvalidArgument("the {} is {}, the weight {}; they must agree.", kNames[i],
                             view.operands[i].ToString(), weight.ToString());
  if (view.operands.size() == 4 && view.operands[3] != Type{F64, {}})
    return InvalidArgument("the rate must be f64[], got {}.", view.operands[3].ToString());
  return std::vector<Type>(2, weight);
}

Rule AdagradRule(const OpView& view) {
  std::string t;
  for (int d = 0; d < view.operands[0].rank(); ++d) t += static_cast<char>('a' + d);
  const std::string_view rate = view.operands.size() == 4 ? "," : "";
  return MakeRule(fmt::format("{0},{0},{0}{1}->{0},{0}", t, rate), view.operands, view.results);
}

// The step in terms of other ops, element by element the same as AdagradKernel. If the gradient is 0, the formula by
// itself changes nothing, and has the slope -rate / (sqrt(a) + epsilon).
std::vector<Value> AdagradForm(const std::vector<Value>& in, const Attrs& attrs) {
  const DType dtype = in[0].dtype() == F64 ? F64 : F32;
  const auto wide = [&](const Value& x) { return InDType(x, dtype); };
  const Value g = wide(in[1]);
  Value lr = Constant(*g.graph(), attrs.Get<double>("learning_rate"), {F64, {}});
  if (in.size() == 4) lr = Mul(lr, in[3]);
  const Value a = Add(wide(in[2]), Mul(g, g));
  const double epsilon = attrs.Get<double>("epsilon");
  // The root of 0 has no finite slope. With epsilon 0 the quotient is 0 / 0 there and has no slope either; any finite
  // slope will do.
  const Value is_zero = Equal(a, 0.0);
  const Value root = Add(Sqrt(Select(is_zero, 1.0, a)), epsilon);
  const Value divisor = Select(is_zero, epsilon > 0 ? epsilon : 1.0, root);
  const Value w = Sub(wide(in[0]), Div(Mul(g, wide(lr)), divisor));
  return {InDType(w, in[0].dtype()), InDType(a, in[0].dtype())};
}
std::vector<Value> AdagradGrad(const GradView& view) {
  return GradientOfForm(
      view, [&](const std::vector<Value>& operands) { return AdagradForm(operands, view.attrs); });
}

double AdagradFlops(const OpView& view) { return 7.0 * static_cast<double>(view.operands[0].num_elements()); }

// Duchi, Hazan and Singer, JMLR 12, 2011, figure 1 with the diagonal matrix.
template <typename Element>
Kernel AdagradKernel(const KernelSpec& spec) {
  using T = Compute<Element>;
  const double learning_rate = spec.attrs.Get<double>("learning_rate");
  const bool has_rate = spec.operands.size() == 4;
  const T epsilon = static_cast<T>(spec.attrs.Get<double>("epsilon"));
  return {.run = OnThisCpu<kMostLevel<T>>([=](const KernelArgs& args) {
            const T rate = static_cast<T>(has_rate ? learning_rate * *args.In<double>(3) : learning_rate);
            const Element *w = args.In<Element>(0), *g = args.In<Element>(1), *a = args.In<Element>(2);
            Element *w_out = args.Out<Element>(0), *a_out = args.Out<Element>(1);
            const int64_t begin = args.begin, end = args.end;
            MESHWORK_INDEPENDENT
            for (int64_t i = begin; i < end; ++i) {
              const T gradient = Load<Element>(g[i]);
              const T a_new = Load<Element>(a[i]) + gradient * gradient;
              const T weight = Load<Element>(w[i]) - gradient * rate / (std::sqrt(a_new) + epsilon);
              const bool stays = gradient == T(0);
              a_out[i] = stays ? a[i] : static_cast<Element>(a_new);
              w_out[i] = stays ? w[i] : static_cast<Element>(weight);
            }
          }),
          .units = spec.results[0].local.num_elements(),
          .by_rows = true,
          .parts = std::vector<int64_t>(3, spec.results[0].local.num_elements())};
}

Kernel AdagradCpu(const KernelSpec& spec) {
  return Dispatch(spec.results[0].local.dtype, [&](auto zero) -> Kernel {
    if constexpr (kIsReal<decltype(zero)>) return AdagradKernel<decltype(zero)>(spec);
    else return {};
  });
}

}  // namespace

std::span<const OpRow> OptimizerOps() {
  static const auto* rows = new std::vector<OpRow>{
      {.name = "adam_update",
       .doc =
           "weight, gradient, first and second moment, step (from 1), rate that multiplies the learning rate -> "
           "new weight and moments; lazy: elements whose gradient is 0 stay as they are",
       .num_operands = 5,
       .optional_operands = 1,
       .num_results = 3,
       .attrs = {{"learning_rate", AttrKind::kFloat},
                 {"beta1", AttrKind::kFloat, 0.9},
                 {"beta2", AttrKind::kFloat, 0.999},
                 {"epsilon", AttrKind::kFloat, 1e-8},
                 {"weight_decay", AttrKind::kFloat, 0.0},
                 {"lazy", AttrKind::kBool, false}},
       .infer = InferAdam,
       .rule = AdamRule,
       .grad = AdamGrad,
       .flops = AdamFlops,
       .cpu = AdamCpu,
       .stack = StackUpdate<4>,
       .is_light = true,
       .in_place = {0, 2, 3},
       .samples =
           {"f32[4,6], f32[4,6], f32[4,6], f32[4,6], i64[]; learning_rate=0.001",
            "f64[5], f64[5], f64[5], f64[5], i64[]; learning_rate=0.1 epsilon=1e-5",
            "f32[4,6], f32[4,6], f32[4,6], f32[4,6], i64[]; learning_rate=0.1 weight_decay=0.5",
            "f32[4,6], f32[4,6], f32[4,6], f32[4,6], i64[], f64[]; learning_rate=0.1 weight_decay=0.5",
            "f32[4,6], f32[4,6], f32[4,6], f32[4,6], i64[]; learning_rate=0.1 weight_decay=0.5 lazy=true"},
       .sample_low = 0.1,
       .sample_high = 1},
      {.name = "adagrad_update",
       .doc =
           "weight, gradient, accumulator, rate that multiplies the learning rate -> new weight and accumulator; elements "
           "whose gradient is 0 stay as they are",
       .num_operands = 3,
       .optional_operands = 1,
       .num_results = 2,
       .attrs = {{"learning_rate", AttrKind::kFloat}, {"epsilon", AttrKind::kFloat, 1e-10}},
       .infer = InferAdagrad,
       .rule = AdagradRule,
       .grad = AdagradGrad,
       .flops = AdagradFlops,
       .cpu = AdagradCpu,
       .stack = StackUpdate<3>,
       .is_light = true,
       .in_place = {0, 2},
       .samples = {"f32[4,6], f32[4,6], f32[4,6]; learning_rate=0.1",
                   "f64[5], f64[5], f64[5]; learning_rate=0.1 epsilon=1e-5",
                   "f32[4,6], f32[4,6], f32[4,6], f64[]; learning_rate=0.1"},
       .sample_low = 0.1,
       .sample_high = 1},
  };
  return *rows;
}

namespace {

AdamResult AddAdamUpdate(const AdamOperands& x, const AdamNumbers& numbers, bool lazy, CallSite loc) {
  if (!x.weight.valid()) return {};
  std::vector<Value> operands = {x.weight, x.gradient, x.first_moment, x.second_moment, x.step};
  if (!x.learning_rate.is_number()) operands.push_back(InDType(x.learning_rate.value(), F64));
  const std::vector<Value> r =
      x.weight.graph()->Add("adam_update", operands,
                            {{"learning_rate", x.learning_rate.is_number() ? x.learning_rate.number() : 1.0},
                             {"beta1", numbers.beta1},
                             {"beta2", numbers.beta2},
                             {"epsilon", numbers.epsilon},
                             {"weight_decay", numbers.weight_decay},
                             {"lazy", lazy}},
                            loc);
  return {r[0], r[1], r[2]};
}

}  // namespace

AdamResult AdamUpdate(const Value& weight, const Value& gradient, const Value& first_moment,
                      const Value& second_moment, const Value& step, const Operand& learning_rate,
                      double beta1, double beta2, double epsilon, double weight_decay, CallSite loc) {
  return AddAdamUpdate({weight, gradient, first_moment, second_moment, step, learning_rate},
                       {beta1, beta2, epsilon, weight_decay}, /*lazy=*/false, loc);
}

AdamResult LazyAdamUpdate(const AdamOperands& operands, const AdamNumbers& numbers, CallSite loc) {
  return AddAdamUpdate(operands, numbers, /*lazy=*/true, loc);
}

AdagradResult AdagradUpdate(const Value& weight, const Value& gradient, const Value& accumulator,
                            const Operand& learning_rate, double epsilon, CallSite loc) {
  if (!weight.valid()) return {};
  std::vector<Value> operands = {weight, gradient, accumulator};
  if (!learning_rate.is_number()) operands.push_back(InDType(learning_rate.value(), F64));
  const std::vector<Value> r = weight.graph()->Add(
      "adagrad_update", operands,
      {{"learning_rate", learning_rate.is_number() ? learning_rate.number() : 1.0}, {"epsilon", epsilon}},
      loc);
  return {r[0], r[1]};
}

}  // namespace meshwork

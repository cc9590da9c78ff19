// The forms of reductions over dims. Reals of 16 bits are reduced in f32 and rounded once.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "meshwork/stablehlo/forms.h"

namespace meshwork::stablehlo {
namespace {

using Ints = std::vector<int64_t>;

// What operand 0, wide, reduces to over the attribute `dims`. The sum of nothing is 0, not the -0 that an owed sum begins with.
HloValue Reduced(const FormView& v, ReduceOp op) {
  const HloValue x = v.Wide(0);
  const HloValue start =
      op == ReduceOp::kSum ? v.text.Constant(0, {x.dtype(), {}}) : v.text.Identity(op, x.dtype());
  const Ints& dims = v.attrs().Get<Ints>("dims");
  Type type{x.dtype(), {}};
  for (int d = 0; d < x.rank(); ++d)
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) type.shape.push_back(x.shape()[d]);
  const HloValue operands[] = {x, start};
  const std::string region = v.text.Reduction(op, x.dtype());
  return v.text.Ops("stablehlo.reduce", operands, {type}, "dimensions = " + Array(dims), {&region, 1})[0];
}

// As result 0: rounded, with the dims that are kept.
HloValues AsReduction(const FormView& v, const HloValue& x) {
  return {v.text.Reshape(v.text.Convert(x, v.result().dtype), v.result().shape)};
}

template <ReduceOp op>
absl::StatusOr<HloValues> ReduceForm(const FormView& v) {
  return AsReduction(v, Reduced(v, op));
}

// Over the elements of all blocks: a sum of these is owed.
absl::StatusOr<HloValues> ReduceMeanForm(const FormView& v) {
  double count = 1;
  for (const int64_t d : v.attrs().Get<Ints>("dims"))
    count *= static_cast<double>(v.operand_info(0).global.shape[d]);
  const HloValue sum = Reduced(v, ReduceOp::kSum);
  return AsReduction(v, v.text.Divide(sum, v.text.Constant(count, sum.type)));
}

HloValue AnyOf(HloText& text, const HloValue& a, const HloValue& b) {
  return text.Op("stablehlo.or", {a, b}, a.type);
}
HloValue AllOf(HloText& text, const HloValue& a, const HloValue& b) {
  return text.Op("stablehlo.and", {a, b}, a.type);
}

// Of (number, index) twice: the pair that comes first, whatever order they are compared in. `before`: "GT" or "LT".
HloValues ForemostOf(HloText& text, std::string_view before, const HloValues& pairs) {
  const HloValue &a = pairs[0], &a_index = pairs[1], &b = pairs[2], &b_index = pairs[3];
  HloValue is_before = text.Compare(before, b, a), is_equal = text.Compare("EQ", b, a);
  if (IsReal(a.dtype())) {
    const HloValue a_is_nan = text.Compare("NE", a, a), b_is_nan = text.Compare("NE", b, b);
    const HloValue a_is_number = text.Compare("EQ", a, a);
    is_before = AnyOf(text, is_before, AllOf(text, b_is_nan, a_is_number));
    is_equal = AnyOf(text, is_equal, AllOf(text, b_is_nan, a_is_nan));
  }
  const HloValue takes = AnyOf(text, is_before, AllOf(text, is_equal, text.Compare("LT", b_index, a_index)));
  return {text.Select(takes, b, a), text.Select(takes, b_index, a_index)};
}

template <ReduceOp op>
absl::StatusOr<HloValues> ArgForm(const FormView& v) {
  const HloValue x = v.Wide(0);
  const int64_t dim = v.attrs().Get<int64_t>("dim");
  const Type number{x.dtype(), {}}, index{I32, {}};
  const HloValue operands[] = {x, v.text.Iota({I32, x.shape()}, dim), v.text.Identity(op, x.dtype()),
                               v.text.Identity(ReduceOp::kMin, I32)};
  const std::string region = v.text.Region({number, index, number, index}, [&](const HloValues& pairs) {
    return ForemostOf(v.text, op == ReduceOp::kMax ? "GT" : "LT", pairs);
  });
  const HloValues found =
      v.text.Ops("stablehlo.reduce", operands, {{x.dtype(), v.result().shape}, v.result()},
                 "dimensions = " + Array({dim}), {&region, 1});
  return HloValues{found[1]};
}

constexpr NamedForm kReductionForms[] = {
    {"reduce_sum", ReduceForm<ReduceOp::kSum>},   {"reduce_mean", ReduceMeanForm},
    {"reduce_max", ReduceForm<ReduceOp::kMax>},   {"reduce_min", ReduceForm<ReduceOp::kMin>},
    {"reduce_prod", ReduceForm<ReduceOp::kProd>}, {"reduce_all", ReduceForm<ReduceOp::kAnd>},
    {"reduce_any", ReduceForm<ReduceOp::kOr>},    {"argmax", ArgForm<ReduceOp::kMax>},
    {"argmin", ArgForm<ReduceOp::kMin>},
};

}  // namespace

std::span<const NamedForm> ReductionForms() { return kReductionForms; }

}  // namespace meshwork::stablehlo

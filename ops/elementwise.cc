#include "meshwork/ops/elementwise.h"

#include "meshwork/base/status.h"

namespace meshwork {

absl::Status CheckElements(Elements elements, const Type& type) {
  const DType dtype = type.dtype;
  switch (elements) {
    case Elements::kAny: return absl::OkStatus();
    case Elements::kNumber:
      if (dtype == BOOL) return InvalidArgument("takes numbers, got {}; cast it.", type.ToString());
      return absl::OkStatus();
    case Elements::kReal:
      if (!IsFloat(dtype))
        return InvalidArgument("takes f32, f64 or bf16, got {}; cast it.", type.ToString());
      return absl::OkStatus();
    case Elements::kBits:
      if (IsFloat(dtype)) return InvalidArgument("takes bools or whole numbers, got {}.", type.ToString());
      return absl::OkStatus();
    case Elements::kWhole: break;
  }
  if (!IsInteger(dtype)) return InvalidArgument("takes whole numbers, got {}.", type.ToString());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Type>> InferBroadcast(Elements elements, const OpView& view) {
  MESHWORK_RETURN_IF_ERROR(CheckElements(elements, view.operands[0]));
  for (const Type& type : view.operands) {
    if (type.dtype != view.operands[0].dtype) {
      return InvalidArgument("dtypes differ: {} and {}; cast one of them.", view.operands[0].ToString(),
                             type.ToString());
    }
  }
  MESHWORK_ASSIGN_OR_RETURN(Shape shape, BroadcastShapes(view.operands));
  return std::vector<Type>{{view.operands[0].dtype, shape}};
}

namespace {

ReduceOp Largest(DType dtype) { return dtype == BOOL ? ReduceOp::kOr : ReduceOp::kMax; }
ReduceOp Least(DType dtype) { return dtype == BOOL ? ReduceOp::kAnd : ReduceOp::kMin; }

}  // namespace

Passes Grows(Which which, DType from, DType to) {
  return {{which, Largest(from), Largest(to)}, {which, Least(from), Least(to)}};
}

Passes Falls(Which which, DType from, DType to) {
  return {{which, Largest(from), Least(to)}, {which, Least(from), Largest(to)}};
}

Rule ElementwiseRule(const OpView& view, Passes passes) {
  const Shape& shape = view.results[0].shape;
  auto term = [&](const Type& type) {
    std::string letters;
    const size_t extra = shape.size() - type.shape.size();
    for (size_t d = 0; d < type.shape.size(); ++d)
      letters += type.shape[d] == shape[d + extra] ? static_cast<char>('a' + d + extra) : '1';
    return letters;
  };
  std::string text;
  for (size_t i = 0; i < view.operands.size(); ++i) text += (i == 0 ? "" : ",") + term(view.operands[i]);
  return MakeRule(text + "->" + term(view.results[0]), view.operands, view.results, std::move(passes));
}

Rule OpaqueRule(const OpView& view) { return ElementwiseRule(view, {}); }
Rule GrowingRule(const OpView& view) { return ElementwiseRule(view, Increasing()); }
Rule GrowingUpwardsRule(const OpView& view) {
  return ElementwiseRule(view, {{Which::kAll, ReduceOp::kMin, ReduceOp::kMin}});
}
Rule MovingRule(const OpView& view) { return ElementwiseRule(view, MovesElements()); }

std::vector<Value> Fit(const GradView& view, std::vector<Value> grads) {
  for (size_t i = 0; i < grads.size(); ++i) grads[i] = SumToType(grads[i], view.operands[i].type());
  return grads;
}

}  // namespace meshwork

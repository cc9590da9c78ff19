// Reductions, and what orders elements.
#include <algorithm>
#include <bit>
#include <limits>

#include "meshwork/base/status.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/operators.h"
#include "meshwork/ops/ops.h"
#include "meshwork/stablehlo/read/identity.h"
#include "meshwork/stablehlo/read/reader.h"

namespace meshwork::mlir {
namespace {

absl::StatusOr<Value> Reduced(const OpView& view, Combiner combiner, const Value& x, const Ints& dims) {
  const bool is_bool = x.dtype() == BOOL;
  switch (combiner) {
    case Combiner::kAdd: return ReduceSum(x, dims);
    case Combiner::kMultiply: return ReduceProd(x, dims);
    case Combiner::kMaximum: return InSignedOrder(view, ReduceMax(InSignedOrder(view, x), dims));
    case Combiner::kMinimum: return InSignedOrder(view, ReduceMin(InSignedOrder(view, x), dims));
    case Combiner::kAnd:
      if (is_bool) return ReduceAll(x, dims);
      break;
    case Combiner::kOr:
      if (is_bool) return ReduceAny(x, dims);
      break;
    case Combiner::kSecond: break;
  }
  return view.Fail("its function is not read.");
}

Value Combined(Combiner combiner, const Value& a, const Value& b) {
  switch (combiner) {
    case Combiner::kAdd: return Add(a, b);
    case Combiner::kMultiply: return Mul(a, b);
    case Combiner::kMaximum: return Maximum(a, b);
    case Combiner::kMinimum: return Minimum(a, b);
    case Combiner::kAnd: return And(a, b);
    default: return Or(a, b);
  }
}

// The dim along which operand 1 counts, if it is an iota; -1: it is none.
int64_t IotaDim(const Value& x) {
  if (!x.valid()) return -1;
  const ValueInfo& info = x.graph()->value(x.id());
  if (info.node < 0) return -1;
  const Node& node = x.graph()->nodes()[static_cast<size_t>(info.node)];
  return node.row->name == "iota" ? node.attrs.Get<int64_t>("dim") : -1;
}

absl::StatusOr<Bounds> ReadExtremum(const OpView& view, const Ints& dims) {
  const std::optional<Order> order = ExtremumOf(view.op.regions[0]);
  if (IsUnsigned(view.type(0))) return view.Fail("extrema of numbers without a sign have no index here.");
  if (!order.has_value() || dims.size() != 1 || IotaDim(view.operands[1].value) != dims[0])
    return view.Fail("of two values together only the extremum and its index are read.");
  const bool is_largest = *order == Order::kDescending;
  const Combiner combiner = is_largest ? Combiner::kMaximum : Combiner::kMinimum;
  if (!IsIdentity(view.operands[2], combiner))
    return view.Fail("its first value is to be below (above) all.");
  const Value x = view.Arg(0);
  const Value index = is_largest ? Argmax(x, dims[0]) : Argmin(x, dims[0]);
  MESHWORK_ASSIGN_OR_RETURN(const Value extremum, Reduced(view, combiner, x, dims));
  return Bounds{extremum, InDType(index, view.result_type(1).dtype)};
}

absl::StatusOr<Bounds> ReadReduce(const OpView& view) {
  const size_t count = view.op.result_types.size();
  MESHWORK_RETURN_IF_ERROR(view.Expect(2 * count, count, 1));
  MESHWORK_ASSIGN_OR_RETURN(const Ints dims, view.Ints("dimensions"));
  if (count == 2) return ReadExtremum(view, dims);
  const std::optional<Combiner> combiner = count == 1 ? CombinerOf(view.op.regions[0]) : std::nullopt;
  if (!combiner.has_value()) return view.Fail("its function is not read: one op of two values is.");
  const Known& known = view.operands[0].known;
  const bool is_logic = *combiner == Combiner::kAnd || *combiner == Combiner::kOr;
  if (is_logic && known.is_splat() && NumElements(view.type(0).shape) > 0 &&
      IsIdentity(view.operands[1], *combiner))
    return Bounds{Bound(view.result(), known)};
  MESHWORK_ASSIGN_OR_RETURN(const Value reduced, Reduced(view, *combiner, ToArithmetic(view.Arg(0)), dims));
  const DType dtype = view.result_type().dtype;
  if (IsIdentity(view.operands[1], *combiner)) return Bounds{InDType(reduced, dtype)};
  const bool is_extremum = *combiner == Combiner::kMaximum || *combiner == Combiner::kMinimum;
  if (IsUnsigned(view.type(0)) && is_extremum)
    return view.Fail(
        "the first value of an extremum of numbers without a sign is to be the least (largest).");
  return Bounds{InDType(Combined(*combiner, reduced, ToArithmetic(view.Light(1))), dtype)};
}

absl::StatusOr<Bounds> ReadSort(const OpView& view) {
  const size_t count = view.operands.size();
  MESHWORK_RETURN_IF_ERROR(view.Expect(count, count, 1));
  if (count == 0) return view.Fail("there is nothing to sort.");
  MESHWORK_ASSIGN_OR_RETURN(int64_t dim, view.Int("dimension", -1));
  if (dim < 0) dim += view.type(0).rank();
  const std::optional<Comparator> comparator = ComparatorOf(view.op.regions[0], view.op.operand_types);
  if (!comparator.has_value()) return view.Fail("its comparator is not read: the order of one operand is.");
  const Value key = InSignedOrder(view, view.Arg(comparator->key), comparator->key);
  const bool is_bool = key.dtype() == BOOL;
  const Ordered ordered = Sort(is_bool ? Cast(key, I32) : key, dim, comparator->order == Order::kDescending);
  Bounds results;
  for (size_t i = 0; i < count; ++i) {
    if (i != comparator->key) results.emplace_back(TakeAlongDim(view.Arg(i), ordered.indices, dim));
    else results.emplace_back(is_bool ? Cast(ordered.values, BOOL) : InSignedOrder(view, ordered.values, i));
  }
  return results;
}

absl::StatusOr<Bounds> ReadTopK(const OpView& view) {
  MESHWORK_RETURN_IF_ERROR(view.Expect(1, 2));
  MESHWORK_ASSIGN_OR_RETURN(const int64_t k, view.Int("k"));
  const Ordered top = TopK(view.Arg(0), k, -1);
  return Bounds{top.values, InDType(top.indices, view.result_type(1).dtype)};
}

constexpr NamedReadOp kReductionOps[] = {
    {"stablehlo.reduce", ReadReduce},
    {"stablehlo.sort", ReadSort},
    {"chlo.top_k", ReadTopK},
};

}  // namespace

bool IsIdentity(const Bound& bound, Combiner combiner) {
  if (!bound.known.is_splat()) return false;
  const int64_t bits = bound.known.bits;
  const std::string& element = bound.type.element;
  const int width = element.ends_with("32") ? 32 : element.ends_with("64") ? 64 : 16;
  const bool is_real = IsRealElement(bound.type);
  const auto infinity = [&](bool negative) {
    if (element == "f64")
      return std::bit_cast<int64_t>(negative ? -std::numeric_limits<double>::infinity()
                                             : std::numeric_limits<double>::infinity());
    if (element == "f32")
      return static_cast<int64_t>(std::bit_cast<int32_t>(negative ? -std::numeric_limits<float>::infinity()
                                                                  : std::numeric_limits<float>::infinity()));
    if (element == "bf16") return static_cast<int64_t>(negative ? 0xFF80 : 0x7F80);
    if (IsUnsigned(bound.type))
      return negative ? int64_t{0} : width == 32 ? int64_t{UINT32_MAX} : int64_t{-1};
    if (width == 32) return static_cast<int64_t>(negative ? INT32_MIN : INT32_MAX);
    return negative ? INT64_MIN : INT64_MAX;
  };
  const auto one = [&] {
    if (element == "f64") return std::bit_cast<int64_t>(1.0);
    if (element == "f32") return static_cast<int64_t>(std::bit_cast<int32_t>(1.0F));
    return element == "bf16" ? int64_t{0x3F80} : int64_t{1};
  };
  const auto negative_zero = [&] {
    if (element == "f64") return std::bit_cast<int64_t>(-0.0);
    return element == "f32" ? static_cast<int64_t>(std::bit_cast<int32_t>(-0.0F)) : int64_t{0x8000};
  };
  switch (combiner) {
    case Combiner::kAdd: return bits == 0 || (is_real && bits == negative_zero());
    case Combiner::kMultiply: return bits == one();
    case Combiner::kMaximum: return bits == infinity(true);
    case Combiner::kMinimum: return bits == infinity(false);
    case Combiner::kAnd: return element == "i1" && bits != 0;
    case Combiner::kOr: return element == "i1" && bits == 0;
    case Combiner::kSecond: return true;
  }
  return false;
}

std::span<const NamedReadOp> ReductionOps() { return kReductionOps; }

}  // namespace meshwork::mlir
